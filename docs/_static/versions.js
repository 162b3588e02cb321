// A list of the versions of this documentation, in the bar at the top of every page.
// `docs/_versions.py` writes the list into every version of the site when one is added; a site that was
// built alone has none, and shows no list.
const versions = [];

function showVersions() {
  const place = document.querySelector("#version-switch");
  if (!place || versions.length < 2) return;
  const root = new URL(document.documentElement.dataset.content_root || "./", document.baseURI);
  const page = document.baseURI.slice(root.href.length).split("#")[0];
  const here = root.pathname.split("/").filter(Boolean).pop();
  const choice = document.createElement("select");
  choice.setAttribute("aria-label", "Version of the documentation");
  for (const { folder, title } of versions) {
    choice.add(new Option(title, folder, folder === here, folder === here));
  }
  choice.addEventListener("change", async () => {
    const start = new URL(`../${choice.value}/`, root);
    const same = new URL(page, start);
    // Another version may not have this page.
    const found = await fetch(same, { method: "HEAD" }).then((answer) => answer.ok, () => false);
    window.location.href = found ? same.href : start.href;
  });
  place.append(choice);
}

document.addEventListener("DOMContentLoaded", showVersions);

// Names of columns, with their descriptions from the data dictionary where there is one.

let describedColumns = null;

// What the dictionary says about a column, or about each part of a combination of columns.
function descriptionOf(text) {
  describedColumns ??= new Map(
    (study.columns ?? []).map((c, j) => [c.name, { words: c.description ?? "", at: j }]),
  );
  const whole = describedColumns.get(text);
  if (whole) return { words: whole.words, at: whole.at };
  const parts = String(text)
    .split(" x ")
    .filter((part) => describedColumns.get(part)?.words);
  return {
    words: parts.map((part) => `${part}: ${describedColumns.get(part).words}`).join(" "),
    at: parts.length ? describedColumns.get(parts[0]).at : null,
  };
}

// The name, and its description as a hint under the pointer and at the keyboard's focus. The link leads to
// the list of columns. Long tables have quiet names, which the keyboard does not stop at.
function columnName(text, most = 60, quiet = false) {
  const { words: description, at } = descriptionOf(text);
  const shown = name(brief(text, most));
  if (!description) return shown;
  const attributes = { class: "column", "data-hint": plain(description) };
  return element(quiet ? "span" : "a", quiet ? attributes : { ...attributes, href: `#column-${at}` }, shown);
}

// ------------------------------------------------------------------ the hint

const hint = element("div", { id: "hint", role: "tooltip", hidden: true });
byId("main").append(hint);
let hinted = null;

function showHint(node) {
  if (hinted === node) return;
  hideHint();
  hinted = node;
  fill(hint, node.getAttribute("data-hint"));
  node.setAttribute("aria-describedby", "hint");
  hint.hidden = false;
  placeHint();
}

// Below the name, or above it where there is no room.
function placeHint() {
  if (!hinted) return;
  const box = hinted.getBoundingClientRect(),
    own = hint.getBoundingClientRect();
  const left = Math.min(Math.max(box.left, 8), Math.max(document.documentElement.clientWidth - own.width - 8, 8));
  const below = box.bottom + 4;
  hint.style.left = `${left}px`;
  hint.style.top = `${below + own.height > innerHeight ? Math.max(box.top - own.height - 4, 4) : below}px`;
}

function hideHint() {
  hinted?.removeAttribute("aria-describedby");
  hinted = null;
  hint.hidden = true;
}

const ofHint = (event) => (event.target instanceof Element ? event.target.closest("[data-hint]") : null);
for (const kind of ["mouseover", "focusin"]) {
  document.addEventListener(kind, (event) => {
    const node = ofHint(event);
    if (node) showHint(node);
    else if (!hint.contains(event.target)) hideHint();
  });
}
document.addEventListener("focusout", hideHint);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideHint();
});
addEventListener("scroll", placeHint, { passive: true, capture: true }); // the focus may scroll the page

// The switch between equal decisions and equal scores. The page is drawn from one set of positions; the
// switch starts it anew with the other set, so that everything on it follows.

// What listens to the window stops when the page starts anew.
const stopped = new AbortController();
const addEventListener = (type, listener) =>
  window.addEventListener(type, listener, { signal: stopped.signal });

const HASH = /^#fairness=([0-9]*\.?[0-9]+)(?:&equalize=(decisions|scores))?$/;
const stored = JSON.parse(document.getElementById("study").textContent);
const sides = [stored, stored.other].filter(Boolean).map((side) => side.about.equalize);
const wanted = carried?.equalize ?? HASH.exec(location.hash)?.[2];
const equalize = sides.includes(wanted) ? wanted : sides[0];

// Everything that scripts fill, as it was before they did. Plotly adds nodes of its own to the body.
if (!carried) {
  for (const node of document.body.children) node.toggleAttribute("data-part", node.tagName !== "SCRIPT");
}
const parts = () => [...document.querySelectorAll("body > [data-part]")];
const pristine = carried?.pristine ?? parts().map((node) => node.cloneNode(true));

// The values at all positions, from the tree that stores them (packing.py).
function unpacked(tree, n) {
  if ("c" in tree) return Array(n).fill(tree.c);
  if ("v" in tree) return tree.v;
  if ("l" in tree) {
    const items = tree.l.map((item) => unpacked(item, n));
    return Array.from({ length: n }, (_, i) => items.map((item) => item[i]));
  }
  const values = Object.entries(tree.d).map(([key, part]) => [key, unpacked(part, n)]);
  return Array.from({ length: n }, (_, i) => Object.fromEntries(values.map(([key, part]) => [key, part[i]])));
}

// The study of what is made equal: as if the page had nothing else.
function chosenStudy() {
  const { other, ...first } = stored;
  const side = equalize === sides[0] ? first : { ...first, ...other, about: { ...first.about, ...other.about } };
  return { ...side, positions: unpacked(side.positions, side.fairness.length) };
}

// By the switch itself the slider and the focus stay where they are; a link has a place of its own.
function startAgain(next, byHand = true) {
  const i = byHand ? current : null;
  const kept = { pristine, equalize: next, i, attribute: attributeSelect.value };
  stopped.abort();
  cancelAnimationFrame(asked);
  clearTimeout(later);
  clearTimeout(waiting);
  for (const one of charts) if (one.drawn) Plotly.purge(one.plot);
  const [x, y, high] = [scrollX, scrollY, document.body.offsetHeight];
  document.body.style.minHeight = `${high}px`; // nothing jumps while the charts are drawn anew
  parts().forEach((node, k) => node.replaceWith(pristine[k].cloneNode(true)));
  explorer(kept);
  scrollTo({ left: x, top: y, behavior: "instant" });
  setTimeout(() => (document.body.style.minHeight = ""), 600);
}

function showSwitch() {
  const node = byId("switch");
  node.hidden = sides.length < 2;
  if (node.hidden) return;
  for (const input of node.querySelectorAll("input")) {
    input.checked = input.value === equalize;
    input.addEventListener("change", () => startAgain(input.value));
    if (input.checked && known(carried?.i)) input.focus({ preventScroll: true });
  }
  // Importance and the audit are about the model that the page was made for.
  if (equalize === sides[0]) return;
  for (const id of ["view-importance", "view-audit"]) {
    byId(id)
      .querySelector("h3")
      .after(element("p", { class: "caution" }, `This view is about equal ${sides[0]}, whatever is chosen at the top.`));
  }
}

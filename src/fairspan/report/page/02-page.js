// Building blocks of the page. All text enters through textContent.

const byId = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  }
  return add(node, ...children);
}

function add(node, ...children) {
  const some = children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== "");
  node.append(...some.map((c) => (c instanceof Node ? c : document.createTextNode(plain(c)))));
  return node;
}

function fill(node, ...children) {
  node.replaceChildren();
  return add(node, ...children);
}

// A user's name inside a sentence: its direction of writing stays its own.
const name = (text) => element("bdi", {}, text);

// A number in a sentence; tests and machines read data-value.
function value(metric, x, text) {
  return element(
    "data",
    { value: known(x) ? x : "", "data-metric": metric, "data-value": known(x) ? x : "" },
    text,
  );
}

function estimate(metric, e, kind) {
  const between = range(e, kind);
  return [value(metric, e ? e.value : null, show(e ? e.value : null, kind)), between ? ` (${between})` : ""];
}

// Cells of a table: words, a number, an estimate.
const wordy = (text) => ({ text, class: "words" });
const number = (x, kind) => ({ text: show(x, kind), value: x, class: "right" });
const whole = (n) => ({ text: count(n), value: n, class: "right" });
const spread = (e, kind) => ({
  text: e && known(e.value) ? show(e.value, kind) : UNKNOWN,
  value: e ? e.value : null,
  range: range(e, kind),
  class: "right",
  small: Boolean(e && e.small),
});

function cell(content, tag, scope) {
  if (content === null || typeof content !== "object" || content instanceof Node) {
    return element(tag, { scope }, tag === "th" && scope === "row" ? name(content ?? "") : (content ?? ""));
  }
  const shown = known(content.value) ? content.value : null;
  return element(
    tag,
    { scope, class: content.class, "data-value": shown },
    content.text,
    content.range ? [" ", element("span", { class: "range" }, `(${content.range})`)] : null,
    content.small ? [" ", element("span", { class: "small" }, "few rows")] : null,
  );
}

const line = (row) =>
  element(
    "tr",
    {},
    row.map((one, j) => (j === 0 ? cell(one, "th", "row") : cell(one, "td"))),
  );
const headed = (caption, heads, ...bodies) =>
  element(
    "table",
    {},
    element("caption", {}, caption),
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        heads.map((head) => cell(head, "th", "col")),
      ),
    ),
    bodies,
  );

// heads: words, or { text, class }. The first cell of a row names it.
function table(caption, heads, rows) {
  return headed(caption, heads, element("tbody", {}, rows.map(line)));
}

// parts: [[title, rows], ...]
function partedTable(caption, heads, parts) {
  return headed(
    caption,
    heads,
    parts.map(([title, rows]) =>
      element(
        "tbody",
        {},
        element(
          "tr",
          { class: "part" },
          element("th", { scope: "rowgroup", colspan: heads.length }, title instanceof Node ? title : name(title)),
        ),
        rows.map(line),
      ),
    ),
  );
}

const right = (text) => ({ text, class: "right" });

// A wide table scrolls inside its own box, which the keyboard can reach.
function scroller(title, ...children) {
  return element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": title }, ...children);
}

function choices(select, options) {
  fill(
    select,
    options.map(([key, text]) => element("option", { value: key }, brief(text, 60))),
  );
}

// ------------------------------------------------------------------ views that fail

const FAILED = "could not be drawn";

// The message stands below the view's heading; `hold` and `fill` do not touch it.
function showFailure(view, error) {
  console.error(error);
  view.hidden = false;
  const text = `This view ${FAILED} (${error.message}). The other views and their numbers are not affected.`;
  view.querySelector("h2, h3").after(element("p", { class: "caution failed", role: "alert" }, text));
}

// Run `work`, which fills or draws a view. If it fails, the view says so and the others go on.
function guarded(view, work) {
  for (const old of view.querySelectorAll(":scope > .failed")) old.remove();
  try {
    work();
    return true;
  } catch (error) {
    showFailure(view, error);
    return false;
  }
}

// An error outside a view would leave the page empty: show a message.
addEventListener("error", (event) => {
  if (/^ResizeObserver loop/.test(event.message)) return; // sizes are observed again in the next frame
  byId("main").prepend(element("p", { class: "caution failed", role: "alert" }, `This page ${FAILED} (${event.message}).`));
});

// A card without a neighbour takes the whole row.
function fillRows() {
  for (const row of document.querySelectorAll(".cards")) {
    const half = [...row.children].filter((card) => !card.hidden && !card.classList.contains("wide"));
    half.forEach((card, k) => card.classList.toggle("alone", half.length % 2 === 1 && k === half.length - 1));
  }
}

// Words change their length with the slider: what once was taller stays so, and nothing below jumps.
const held = new Set();
function hold(node) {
  held.add(node);
  const high = Math.ceil(node.getBoundingClientRect().height);
  if (high > (parseFloat(node.style.minHeight) || 0)) node.style.minHeight = `${high}px`;
}

function release() {
  for (const node of held) node.style.minHeight = "";
  held.clear();
}

// Words follow the slider at once; a screen reader hears where it came to rest.
let waiting = 0;
function announce(text) {
  clearTimeout(waiting);
  waiting = setTimeout(() => fill(byId("live"), text), 700);
}

// Charts: one look for all, drawn by Plotly, each with its numbers as a table.

// Okabe and Ito's colours, darkened on white and lightened on black where they would not stand out;
// dashes and markers tell them apart without colour. The series have different lengths, so that pairs
// repeat late.
const LIGHT = {
  colours: ["#0072B2", "#D55E00", "#007A59", "#A8477F", "#000000", "#9A6A00", "#3F8FBF"],
  ink: "#1b2430",
  grey: "#5b6875",
  paper: "#ffffff",
  grid: "#e6eaee",
  line: "#8b96a1",
  fill: "rgba(0,114,178,0.18)",
};
const DARK = {
  colours: ["#56B4E9", "#F0A04B", "#2FC79A", "#DD93BF", "#FFFFFF", "#E3C93A", "#A9D8F5"],
  ink: "#e6ebf1",
  grey: "#a9b5c1",
  paper: "#141a21",
  grid: "#2b3541",
  line: "#7f8c99",
  fill: "rgba(86,180,233,0.22)",
};
const night = matchMedia("(prefers-color-scheme: dark)");
let paper = null; // width of a chart in print
const tone = () => (night.matches && paper === null ? DARK : LIGHT);

// Short gaps: what a line does in between can be seen.
const DASHES = [
  "solid",
  "8px,3px",
  "2px,2px",
  "9px,2px,2px,2px",
  "14px,3px",
  "9px,2px,2px,2px,2px,2px",
];
const MARKERS = ["circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down", "star"];

const look = (i) => ({
  colour: tone().colours[i % tone().colours.length],
  dash: DASHES[i % DASHES.length],
  marker: MARKERS[i % MARKERS.length],
});

const font = () => ({
  family: "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif",
  size: 12.5,
  color: tone().ink,
});
const CONFIG = { displayModeBar: false, scrollZoom: false, doubleClick: false, showTips: false };

// Titles of axes do not wrap by themselves. The text is escaped already.
function folded(text, most = innerWidth < 560 ? 42 : 64) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (lines.at(-1) && lines.at(-1).length + word.length >= most) lines.push("");
    lines.push(`${lines.pop()} ${word}`.trim());
  }
  return lines.join("<br>");
}

function axis(title, kind, ends, more = {}) {
  return {
    title: { text: folded(title), standoff: 8, font: { size: 12.5 } },
    range: ends,
    fixedrange: true,
    tickformat: KINDS[kind]?.tick ?? "",
    automargin: true,
    nticks: 6,
    gridcolor: tone().grid,
    linecolor: tone().line,
    zeroline: false,
    showline: true,
    ticks: "outside",
    ticklen: 4,
    tickcolor: tone().line,
    ...more,
  };
}

function layout(height, more) {
  return {
    height,
    font: font(),
    margin: { l: 8, r: 14, t: 12, b: 8 },
    showlegend: false,
    dragmode: false,
    hovermode: "closest",
    paper_bgcolor: tone().paper,
    plot_bgcolor: tone().paper,
    hoverlabel: {
      bgcolor: tone().paper,
      bordercolor: tone().grey,
      font: font(),
      align: "left",
      namelength: -1,
    },
    ...more,
  };
}

// Ends of an axis that holds all these numbers at every place of the slider.
function ends(numbers, { least, most, pad = 0.05 } = {}) {
  const all = numbers.filter(known);
  if (!all.length) return [least ?? 0, most ?? 1];
  let low = all[0],
    high = all[0];
  for (const x of all) {
    low = Math.min(low, x);
    high = Math.max(high, x);
  }
  const room = (high - low || Math.abs(high) || 1) * pad;
  return [
    least !== undefined && low >= least ? least - 0.02 * (high - least || 1) : low - room,
    most !== undefined && high <= most && high + room > most ? most + 0.02 : high + room,
  ];
}

const error = (estimates, of, times = 1) => ({
  type: "data",
  symmetric: false,
  thickness: 1.6,
  width: 4,
  ...of,
  array: estimates.map((e) =>
    known(e.high) && known(e.value) ? Math.max(times * (e.high - e.value), 0) : 0,
  ),
  arrayminus: estimates.map((e) =>
    known(e.low) && known(e.value) ? Math.max(times * (e.value - e.low), 0) : 0,
  ),
});

// ------------------------------------------------------------------ keys

function swatch({ colour, dash, marker, open }) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const set = (node, attributes) => {
    for (const [key, one] of Object.entries(attributes)) node.setAttribute(key, one);
    return node;
  };
  set(svg, { width: 30, height: 14, "aria-hidden": "true", viewBox: "0 0 30 14" });
  const add = (tag, attributes) =>
    svg.append(set(document.createElementNS(svg.namespaceURI, tag), attributes));
  const gaps = dash === "solid" ? null : dash?.replace(/px/g, "");
  if (dash)
    add("path", {
      d: "M1 7H29",
      stroke: colour,
      "stroke-width": 2.4,
      fill: "none",
      ...(gaps && { "stroke-dasharray": gaps }),
    });
  const shapes = {
    circle: "M15 2.5a4.5 4.5 0 1 0 .01 0Z",
    square: "M11 3h8v8h-8Z",
    diamond: "M15 1.5L20.5 7L15 12.5L9.5 7Z",
    "triangle-up": "M15 2L20 11H10Z",
    "triangle-down": "M15 12L20 3H10Z",
    cross: "M13.3 2h3.4v3.3H20v3.4h-3.3V12h-3.4V8.7H10V5.3h3.3Z",
    x: "M11.8 2L15 5.2L18.2 2L20 3.8L16.8 7L20 10.2L18.2 12L15 8.8L11.8 12L10 10.2L13.2 7L10 3.8Z",
    star: "M15 1l1.7 4.2 4.5.3-3.5 2.9 1.1 4.4-3.8-2.4-3.8 2.4 1.1-4.4-3.5-2.9 4.5-.3Z",
  };
  if (marker)
    add("path", {
      d: shapes[marker] ?? shapes.circle,
      fill: open ? tone().paper : colour,
      stroke: colour,
      "stroke-width": open ? 2 : 0.5,
    });
  return svg;
}

// entries: [{ text, colour, dash, marker }]; the key is part of the page, so names wrap and are inert.
function key(entries) {
  return element(
    "ul",
    { class: "key" },
    entries.map((one) => element("li", {}, swatch(one), one.text instanceof Node ? one.text : name(brief(one.text, 60)))),
  );
}

// ------------------------------------------------------------------ one chart

const charts = [];

// read(state) gives { traces, layout, label, table, key, say }; nothing is drawn when it gives null.
function chart(id, about, read) {
  const card = byId(id);
  const say = element("p", { class: "say" });
  const legend = element("div", {});
  const plot = element("div", { class: "plot", role: "img" });
  const numbers = element("div", {
    class: "scroll",
    role: "region",
    tabindex: "0",
    "aria-label": "Numbers of this chart",
  });
  const title = card.querySelector("h3").textContent;
  const summary = element(
    "summary",
    {},
    "Numbers of this chart",
    element("span", { class: "unseen" }, `: ${title}`),
  );
  card.append(
    element("p", { class: "about" }, about),
    say,
    element("figure", {}, legend, plot, element("details", {}, summary, numbers)),
  );
  const one = { card, plot, stale: null, wanted: null, drawn: null, width: 0 };
  one.update = (state) => {
    one.wanted = null;
    guarded(card, () => {
      const now = read(state);
      card.hidden = now === null;
      if (now === null) {
        fill(numbers);
        return;
      }
      fill(say, now.say ?? null);
      say.hidden = !now.say;
      hold(say);
      fill(legend, now.key ? key(now.key) : null);
      fill(numbers, now.table);
      numbers.setAttribute("aria-label", now.table.caption.textContent);
      plot.setAttribute("aria-label", plain(now.label));
      one.wanted = now;
    });
  };
  charts.push(one);
  return one;
}

function draw(one) {
  const now = one.wanted;
  if (!now) return;
  const width = paper ?? one.plot.clientWidth;
  if (now === one.drawn && width === one.width) return;
  one.drawn = now;
  one.width = width;
  const { height: high } = now.layout;
  const height = paper && high < 400 ? 0.8 * high : high; // taller ones are rows of names
  guarded(one.card, () => Plotly.react(one.plot, now.traces, { ...now.layout, width, height }, CONFIG));
}

const inSight = (one) => {
  const box = one.card.getBoundingClientRect();
  return box.bottom > -200 && box.top < window.innerHeight + 200;
};

function renew(some) {
  for (const one of some.filter((each) => each.stale)) {
    one.update(one.stale);
    one.stale = null;
  }
  fillRows();
  some.forEach(draw);
}

// What is in sight moves with the slider, the rest as soon as it rests.
let later = 0;
function drawAll(state) {
  for (const one of charts) one.stale = state;
  clearTimeout(later);
  later = setTimeout(() => renew(charts), 150);
  renew(charts.filter(inSight));
}

// Windows change, paper is narrower than the screen and always light: charts are drawn anew.
function fitCharts(now, width = null) {
  paper = width;
  release();
  for (const one of charts) one.stale = now;
  renew(charts);
}

// Numbers and names as people read them.

const UNKNOWN = "not known";
const CHOSEN =
  "The gap of an attribute is the largest of several, so it tends to look bigger than it is.";

// Names come from users. What would move the cursor or turn the line round is spelled out instead.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

function plain(text) {
  return String(text).replace(UNSEEN, (sign) => "\\u" + sign.charCodeAt(0).toString(16).padStart(4, "0"));
}

function brief(text, most = 26) {
  const signs = Array.from(plain(text));
  return signs.length > most ? signs.slice(0, most - 1).join("") + "…" : signs.join("");
}

// Plotly reads its labels as a little HTML, and what stands between dollars as mathematics.
function label(text, most) {
  return brief(text, most)
    .replace(/&/g, "&amp;")
    .replace(/</g, "&lt;")
    .replace(/>/g, "&gt;")
    .replace(/\$/g, "&#36;");
}

function known(x) {
  return typeof x === "number" && Number.isFinite(x);
}

function decimals(x, places) {
  const text = x.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
  return text.replace("-", "−").replace(/^−(0(\.0*)?)$/, "$1");
}

function significant(x, digits = 3) {
  if (x === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(x)));
  if (size >= digits - 1) return decimals(x, 0);
  if (size < -4) return x.toExponential(1).replace(/-/g, "−");
  return decimals(x, digits - 1 - size);
}

function count(n) {
  return known(n) ? decimals(n, 0) : UNKNOWN;
}

function many(n, one, several = one + "s") {
  return `${count(n)} ${n === 1 ? one : several}`;
}

// A kind of number: how one is written, what follows a range, how an axis shows it.
const KINDS = {
  rate: { one: (x) => decimals(100 * x, 1) + "%", end: (x) => decimals(100 * x, 1), after: "%", tick: ".0%" },
  points: {
    one: (x) => decimals(100 * x, 1) + " points",
    end: (x) => decimals(100 * x, 1),
    after: "",
    times: 100,
    tick: "",
  },
  index: { one: (x) => decimals(x, 3), end: (x) => decimals(x, 3), after: "", tick: "" },
  number: { one: (x) => significant(x), end: (x) => significant(x), after: "", tick: "" },
};

// Numbers in units of the target share their decimals, which follow from the size of its error: no
// difference is shown finer than what it is a difference of.
function setUnit(error) {
  const size = error > 0 ? Math.floor(Math.log10(error)) : 0;
  const places = Math.max(2 - size, 0);
  const one = (x) => (places > 6 ? significant(x) : decimals(x, places));
  KINDS.unit = { one, end: one, after: "", tick: "" };
}

function show(x, kind = "number") {
  return known(x) ? KINDS[kind].one(x) : UNKNOWN;
}

// The interval of an estimate, "16.9 to 19.5", or nothing.
function range(estimate, kind = "number") {
  if (!estimate || !known(estimate.low) || !known(estimate.high)) return "";
  const { end, after } = KINDS[kind];
  return `${end(estimate.low)} to ${end(estimate.high)}${after}`;
}

function reading(estimate, kind = "number") {
  if (!estimate || !known(estimate.value)) return UNKNOWN;
  const between = range(estimate, kind);
  return show(estimate.value, kind) + (between ? ` (${between})` : "");
}

const METRIC_WORDS = {
  selection_rate: "Selection rate",
  true_positive_rate: "True positive rate",
  false_positive_rate: "False positive rate",
  positive_predictive_value: "Positive predictive value",
  accuracy: "Accuracy",
  mean_prediction: "Mean prediction",
  mean_error: "Mean error (predicted minus actual)",
  root_mean_squared_error: "Typical error (RMSE)",
};

function sentenceCase(text) {
  return String(text).charAt(0).toUpperCase() + String(text).slice(1);
}

function words(metric) {
  const known = Object.hasOwn(METRIC_WORDS, metric) ? METRIC_WORDS[metric] : String(metric).replace(/_/g, " ");
  return sentenceCase(known);
}

// How a number of the audit is written, by the name of its metric ("…_difference (class)").
function kindOf(metric) {
  const name = String(metric).replace(/ \(.*\)$/s, "");
  if (/^(mean_|root_)/.test(name)) return "unit";
  if (/_(difference|error|in_the_large)$/.test(name)) return "points";
  if (/^(selection_rate|true_|false_|positive_predictive|accuracy)/.test(name)) return "rate";
  return "index";
}

// Slices of a number in words: "under 25", "25 to under 32", "72 and over".
const NUMBER = "(-?[\\d.]+(?:e[+-]?\\d+)?)";
const BELOW = new RegExp(`^< ${NUMBER}$`),
  ABOVE = new RegExp(`^>= ${NUMBER}$`),
  BETWEEN = new RegExp(`^\\[${NUMBER}, ${NUMBER}\\)$`);

function sliceWords(label) {
  return String(label)
    .split(" & ")
    .map((part) =>
      part.replace(BELOW, "under $1").replace(ABOVE, "$1 and over").replace(BETWEEN, "$1 to under $2"),
    )
    .join(" & ");
}

// The same inside a sentence of the library.
function noteWords(note) {
  return String(note)
    .replace(new RegExp(`\\[${NUMBER}, ${NUMBER}\\)`, "g"), "$1 to under $2")
    .replace(new RegExp(`< ${NUMBER}`, "g"), "under $1")
    .replace(new RegExp(`>= ${NUMBER}`, "g"), "$1 and over")
    .replace(/\blevels\b/g, "groups");
}

// "1" says nothing alone: "approve = 1". Nor does "under 25": "age under 25".
function named(what, label) {
  const text = String(label);
  if (/^(-?[\d.,]+|true|false|yes|no|y|n)$/i.test(text.trim())) return `${what} = ${text}`;
  const slice = sliceWords(text);
  return slice !== text && !text.includes(" & ") ? `${what} ${slice}` : slice;
}

// A place of the slider: 0, 0.5, 0.025.
function placeText(fairness) {
  return decimals(fairness, 3).replace(/\.?0+$/, "");
}

function percent(level) {
  return `${significant(100 * level).replace(/\.0+$/, "")}%`;
}

function sentence(text) {
  const trimmed = String(text).trim();
  return /[.!?]$/.test(trimmed) ? trimmed : trimmed + ".";
}

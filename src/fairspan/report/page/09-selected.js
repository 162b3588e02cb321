// One number for every protected attribute: what the switch selects.

const MOST_SELECTED = 3;
const signed = (number) => (number.what === "slope" && number.value > 0 ? "+" : "");
const selectedValue = (number) =>
  value(number.what, number.value, signed(number) + show(number.value, number.kind));
const selectedRange = (number) =>
  range(number, number.kind) ? element("span", { class: "more" }, ` (${range(number, number.kind)})`) : null;

// "difference of selection rates by race", "correlation of the score with race", "10 years older: selection rate".
function selectedName(number, most = 40) {
  const attribute = name(brief(number.attribute, most));
  const where = number.where ? [", ", name(brief(number.where, most))] : "";
  if (number.what === "slope") return [name(brief(number.step, 60)), ": ", number.words, where];
  if (!number.words) return [attribute, where];
  if (number.what === "gap") return [number.words, " by ", attribute, where];
  const [before, ...after] = number.words.split("the attribute");
  return [before, attribute, after.join("the attribute"), where];
}

// A list for the sentence under the slider; the words that attributes share are said once.
function selectedParts({ selected }) {
  const shown = selected.slice(0, MOST_SELECTED);
  const out = shown.map((number, k) => {
    const before = shown[k - 1];
    const again = number.what !== "slope" && before?.what === number.what && before.words === number.words;
    const short = [number.what === "gap" ? "by " : "with ", name(brief(number.attribute, 40))];
    return [
      k ? (again ? ", " : "; ") : "",
      again && !number.where ? short : selectedName(number),
      " ",
      selectedValue(number),
      selectedRange(number),
    ];
  });
  const more = selected.length - shown.length;
  return more > 0 ? [out, `; ${count(more)} more below`] : out;
}

// The slope along a numeric attribute, before anything about its slices.
function slopeParts({ selected }, attribute) {
  const number = selected.find((one) => one.what === "slope" && one.attribute === attribute);
  return number ? [sentenceCase(number.step), selectedName(number).slice(1), " ", selectedValue(number), selectedRange(number), ". "] : "";
}

function selectedTiles({ selected }) {
  const among = (number) => (number.note ? ` · ${brief(noteWords(number.note), 90)}` : "");
  return selected.slice(0, MOST_SELECTED).map((number) => {
    const attribute = name(brief(number.attribute, 30));
    const terms = {
      slope: sentenceCase(number.step),
      gap: ["Gap between groups of ", attribute],
      correlation: ["Dependence on ", attribute],
    };
    const words = number.what === "slope" ? `${number.words}, on average` : number.words;
    const chance =
      number.what === "correlation" && known(noise) ? ` · chance alone gives about ${show(noise, "index")}` : "";
    const where = number.where ? [", ", name(brief(number.where, 40))] : "";
    const worth = likely.get(number.attribute)?.n_equivalent;
    const rows = known(worth) ? ` · worth ${many(Math.round(worth), "row")} with a known group` : "";
    return element(
      "div",
      {},
      element("dt", {}, terms[number.what]),
      element("dd", { class: "big" }, selectedValue(number)),
      element("dd", { class: "fine" }, [range(number, number.kind), words].filter(Boolean).join(" · "), where, chance, rows, among(number)),
    );
  });
}

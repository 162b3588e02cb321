// The cheapest position of the slider whose bound on new rows keeps a limit, or what stands in the way.

const promise = study.promise;
const limitForm = byId("limit-form");
const limitInput = byId("limit");
const measureSelect = byId("limit-measure");
const limitAnswer = byId("limit-answer");

// How a limit is typed, and what is asked of a bound.
const MEASURES = {
  gap: { kind: "points", sign: "at most", unit: "points", first: "5" },
  ratio: { kind: "index", sign: "at least", unit: "", first: "0.8" },
  correlation: { kind: "index", sign: "at most", unit: "", first: "0.05" },
};

// The limit as the library counts it, or a sentence that says what to type.
function readLimit(measure, text) {
  const typed = /^\s*([0-9]*[.,]?[0-9]+)\s*(%|points?)?\s*$/.exec(text);
  const x = typed ? Number(typed[1].replace(",", ".")) : NaN;
  if (measure === "gap") {
    if (x >= 1 && x < 100) return x / 100;
    return "Type percentage points from 1 to 99: 5 for a gap of at most 5 points.";
  }
  if (measure === "ratio") {
    const ratio = x > 1 || typed?.[2] ? x / 100 : x;
    return ratio > 0 && ratio < 1 ? ratio : "Type a ratio between 0 and 1: 0.8 for four fifths.";
  }
  return x > 0 && x < 1 && !typed[2] ? x : "Type a correlation between 0 and 1, such as 0.05.";
}

// As `FairnessPath.select`: from the fair end, before the first bound that breaks the limit; of these the one
// of least error, and of equal errors the fairest.
function cheapest(measure, limit) {
  let best = null;
  for (let i = positions.length - 1; i >= 0; i--) {
    const { error, [measure]: one } = positions[i].promise;
    const kept = known(one.bound) && (measure === "ratio" ? one.bound >= limit : one.bound <= limit);
    if (!kept) break;
    if (best === null || error < positions[best].promise.error) best = i;
  }
  return best;
}

// As `fairspan.method.promises.rows_needed`; null if more rows alone do not help.
function rowsNeeded(measure, limit) {
  const one = positions.at(-1).promise[measure];
  const of = (x) => (measure === "ratio" ? 1 - x : x);
  const [estimated, bound, most] = [of(one.value), of(one.bound), of(limit)];
  const margin = bound - estimated;
  const room = margin > most && margin >= estimated ? most : most - estimated;
  return margin > 0 && Number.isFinite(margin) && room > 0 ? Math.ceil(promise.n * (margin / room) ** 2) : null;
}

const listed = (names) => names.map((text, k) => [k ? (k === names.length - 1 ? " and " : ", ") : "", name(brief(text, 40))]);
// "correlation of the score with race or sex", "difference of selection rates by race or sex".
function measureWords(measure) {
  const who = promise.attributes.map((text) => brief(text, 40)).join(" or ");
  const words = promise.measures[measure];
  if (measure === "correlation") return words.split("the attribute").join(who);
  return measure === "gap" ? `${words} by ${who}` : words;
}

const boundWords = (measure, x) => [value("bound", x, show(x, MEASURES[measure].kind))];

function foundWords(measure, i) {
  const { sign, kind } = MEASURES[measure];
  const { error, [measure]: one } = positions[i].promise;
  const more = error - positions[0].promise.error;
  const size = show(Math.abs(more), extraKind);
  return [
    element("strong", {}, "Can be promised for new people at fairness ", value("setting", study.fairness[i], fairnessText(i))),
    i === 0 ? ", the model without fairness. " : ". ",
    element("span", { "data-at": i }, "The slider is at this position now. "),
    `With ${percent(promise.confidence)} confidence the ${measureWords(measure)} is ${sign} `,
    boundWords(measure, one.bound),
    ` among new people; ${show(one.value, kind)} is expected. On the rows of these bounds the ${errorName} is ${show(error, errorKind)}`,
    i === 0 || /^0(\.0*)?( |$)/.test(size) ? "." : `, ${size} ${more > 0 ? "more" : "less"} than without fairness.`,
    promise.rows === "held-out" ? "" : ` The verdicts at the top are about the ${many(about.n_test, "held-out person", "held-out people")} alone: they check this promise, and prove less if these are fewer.`,
  ];
}

function unprovableWords(measure, limit) {
  const { sign, kind } = MEASURES[measure];
  const one = positions.at(-1).promise[measure];
  const needed = rowsNeeded(measure, limit);
  const { smallest } = promise;
  const inGroup = needed && smallest ? Math.ceil((needed * smallest.n) / promise.n) : null;
  return [
    element("strong", {}, "Not provable with these rows. "),
    `A ${measureWords(measure)} of ${sign} ${show(limit, kind)} cannot be promised with ${percent(promise.confidence)} confidence with ${many(promise.n, "row")}`,
    smallest ? [` (${count(smallest.n)} of `, name(brief(smallest.group, 40)), ", the smallest group)"] : "",
    ". ",
    known(one.bound)
      ? ["The search begins at fairness 1, whose bound is ", boundWords(measure, one.bound), ". "]
      : "No limit can be promised. ",
    needed === null
      ? `The estimate itself is ${show(one.value, kind)}, so more rows alone would not be enough.`
      : inGroup
        ? ["About ", value("needed", needed, count(needed)), ` rows in all would be needed, ${count(inGroup)} of them of that group.`]
        : ["About ", value("needed", needed, count(needed)), " rows would be needed."],
  ];
}

// The slider may have moved on since the answer.
function showWhere(i) {
  for (const node of limitAnswer.querySelectorAll("[data-at]")) node.hidden = Number(node.getAttribute("data-at")) !== i;
}

function answerLimit() {
  const measure = measureSelect.value;
  const limit = readLimit(measure, limitInput.value);
  limitInput.setAttribute("aria-invalid", typeof limit === "string");
  if (typeof limit === "string") {
    fill(limitAnswer, limit);
    return;
  }
  const i = cheapest(measure, limit);
  if (i !== null) go(i);
  fill(limitAnswer, i === null ? unprovableWords(measure, limit) : foundWords(measure, i));
}

// What fairness 1 reaches, in the words of what the slider makes equal.
function endWords() {
  const { correlation, gap } = positions.at(-1).promise;
  const one = correlation ?? gap;
  const who = listed(promise.attributes);
  if (correlation && one.value < 1e-6)
    return ["At fairness 1, the right end of the slider, no correlation with ", who, " is expected among new people. "];
  return [
    "At fairness 1, the right end of the slider, ",
    correlation ? "a correlation" : "a gap",
    ` of ${show(one.value, correlation ? "index" : "points")} is expected among new people: the least that was reached without reading `,
    who,
    ". ",
  ];
}

function showSetting() {
  byId("setting").hidden = !promise;
  if (!promise) return;
  choices(
    measureSelect,
    Object.keys(promise.measures).map((key) => [key, `${measureWords(key)}, ${MEASURES[key].sign}`]),
  );
  const typed = () => {
    const { unit, first } = MEASURES[measureSelect.value];
    limitInput.value = first;
    limitInput.removeAttribute("aria-invalid");
    fill(byId("limit-unit"), unit);
    fill(limitAnswer);
  };
  measureSelect.addEventListener("change", typed);
  typed();
  limitForm.addEventListener("submit", (event) => {
    event.preventDefault();
    answerLimit();
  });
  const rows =
    promise.rows === "held-out"
      ? `the ${many(promise.n, "held-out row")}`
      : `the ${many(promise.n, "training row")}, each judged by functions that did not see it; the other views are about the held-out rows`;
  const about = equalize === "decisions" ? "decisions" : isNumber ? "predictions" : "scores";
  const left = promise.left_out;
  const facts = [
    endWords(),
    [`The promise is about ${about} by `, listed(promise.attributes), ", for new people who are drawn like these rows and independently of each other."],
    `Its bounds come from ${rows}.`,
    `The search goes from fairness 1 towards 0 and stops at the first position whose bound breaks the limit, so that the confidence holds; positions beyond are not promised, whatever their bounds are. Of those before, the one with the smallest ${errorName} is taken.`,
    "The confidence holds for one limit that was chosen beforehand: trying limits until one is kept proves less.",
    promise.attributes.some((attribute) => likely.has(attribute))
      ? ["The groups of ", listed([...likely.keys()]), " are known as probabilities: the promise is about the true groups if the assumptions hold that are stated with their verdicts."]
      : null,
    left.length
      ? ["Nothing is promised for groups of fewer than 30 rows: ", listed(left.slice(0, 6)), left.length > 6 ? ` and ${count(left.length - 6)} more` : "", "."]
      : null,
  ];
  fill(
    byId("limit-about"),
    facts.filter(Boolean).map((text) => element("li", {}, text)),
  );
}

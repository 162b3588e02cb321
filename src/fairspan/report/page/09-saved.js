// Saved models beside the model of the report, on the same held-out rows. The slider does not move this.

const { comparison } = study;
const kindOfMeasure = (one) => ({ error: errorKind, gap: gapKind, correlation: "index" })[one.measure];
const differenceKind = (one) => ({ error: extraKind, gap: gapKind, correlation: "index" })[one.measure];
const savedMark = (k) => look(k);

function measureName(one) {
  return [sentenceCase(one.words), one.attribute ? [", ", columnName(one.attribute)] : ""];
}

const measureText = (one) => sentenceCase(one.words) + (one.attribute ? `, ${one.attribute}` : "");

// "FairGPClassifier, fairness 1, decisions made equal, 51 columns".
function modelWords(one) {
  const extra = [
    ...(one.columns_added.length ? [`reads also ${one.columns_added.map((c) => brief(c, 30)).join(", ")}`] : []),
    ...(one.columns_missing.length ? [`does not read ${one.columns_missing.map((c) => brief(c, 30)).join(", ")}`] : []),
  ];
  return [
    one.kind,
    ...(known(one.fairness) ? [`fairness ${placeText(one.fairness)}`] : []),
    ...(one.criterion ? [one.criterion] : []),
    ...(one.equalize ? [`${one.equalize} made equal`] : []),
    many(one.n_features, "column"),
    ...extra,
    ...(one.n_left_out ? [`${many(one.n_left_out, "row")} left out`] : []),
  ].join("; ");
}

if (comparison) {
  for (const part of ["saved", "view-saved", "view-saved-differences"]) byId(part).hidden = false;
  const { names, measures } = comparison;
  const heads = ["Measure", ...names.map((text) => right(name(brief(text, 40))))];
  chart(
    "view-saved",
    `Every model on the same ${many(comparison.n_rows, "held-out row")}, on which none of them was fitted as far as is known. The slider does not change this view.`,
    () => {
      const panels = [
        ["error", sentenceCase(errorName)],
        ["gap", isNumber ? `Gap, ${label(unitWords, 40)}` : "Gap, percentage points"],
        ["correlation", "Correlation of the score"],
      ].flatMap(([measure, title]) => {
        const some = measures.filter((one) => one.measure === measure && one.models.some((e) => known(e.value)));
        if (!some.length) return [];
        const all = some.flatMap((one) => one.models.flatMap((e) => [e.value, e.low, e.high]));
        return [
          {
            title,
            kind: kindOfMeasure(some[0]),
            ends: ends([...all, 0], { least: 0 }),
            rows: some.map((one) => ({
              text: label(one.attribute || "all rows", 22),
              dots: one.models.map((e, k) => ({
                estimate: e,
                look: savedMark(k),
                tip: `${label(names[k], 40)}<br>${label(measureText(one), 80)}: ${reading(e, kindOfMeasure(one))}`,
              })),
            })),
          },
        ];
      });
      return {
        ...dots(panels, 14, 12),
        key: names.map((text, k) => ({ text, colour: savedMark(k).colour, marker: savedMark(k).marker })),
        say: [
          "Error: ",
          measures[0].models.map((e, k) => [k ? "; " : "", name(brief(names[k], 40)), " ", estimate("saved_error", e, errorKind)]),
          ".",
        ],
        label: `Saved models on the same rows. ${measures.map((one) => `${plain(measureText(one))}: ${names.map((text, k) => `${plain(text)} ${reading(one.models[k], kindOfMeasure(one))}`).join("; ")}`).join(". ")}.`,
        table: table(
          "Numbers of every model on the same held-out rows",
          heads,
          measures.map((one) => [
            element("span", {}, measureName(one)),
            ...one.models.map((e) => spread(e, kindOfMeasure(one))),
          ]),
        ),
      };
    },
  );

  const difference = (one, e) => {
    const plain = spread(e, differenceKind(one));
    if (!known(e.value)) return plain;
    const open = e.low <= 0 && e.high >= 0;
    return { ...plain, text: (e.value > 0 ? "+" : "") + plain.text, range: plain.range + (plain.range && open ? "; includes zero" : "") };
  };
  add(
    byId("view-saved-differences"),
    element(
      "p",
      { class: "about" },
      "How much larger each number is than that of ",
      name(brief(names[0], 40)),
      `. Below zero is better. The ${percent(study.about.level)} intervals are paired: resamples of the rows are the same for all models. Where an interval includes zero, chance alone could explain the difference.`,
    ),
    scroller(
      "Differences between the models",
      table(
        `Differences from ${brief(names[0], 40)}, on ${many(comparison.n_rows, "held-out row")}`,
        ["Measure", ...names.slice(1).map((text) => right(name(brief(text, 40))))],
        measures.map((one) => [
          element("span", {}, measureName(one)),
          ...one.differences.slice(1).map((e) => difference(one, e)),
        ]),
      ),
    ),
    element("h4", {}, "The models"),
    element(
      "ul",
      { class: "plain" },
      comparison.models.map((one, k) => element("li", {}, name(brief(names[k], 60)), ": ", modelWords(one), ".")),
    ),
    comparison.notes.length
      ? element("ul", { class: "plain" }, comparison.notes.map((text) => element("li", {}, sentence(text))))
      : "",
  );
}

// The trade-off, what the model pays for fairness, and whose decision changed.

const study = chosenStudy();
// Columns may be named "constructor" or "__proto__", which every ordinary object inherits. The file
// stores names as items of lists; objects without a prototype hold them here.
const byName = (items) => {
  const out = Object.create(null);
  for (const [key, value] of items) out[key] = value;
  return out;
};
study.scatter = byName(study.scatter);
study.tradeoff.parity = byName(study.tradeoff.parity);
for (const at of study.positions) {
  for (const part of ["scores", "rates", "calibration", "continuous"]) at[part] = byName(at[part]);
}
// The file holds once what the code of all places has in common.
if (study.code) {
  for (const at of study.positions) at.snippet = study.code[0] + at.snippet + study.code[1];
  delete study.code;
}
// Attributes whose groups are known as probabilities: the group of a single person is not known.
const likely = new Map(study.attributes.filter((a) => a.kind === "probabilities").map((a) => [a.name, a]));
const isNumber = study.task === "regression";
const errorKind = isNumber ? "unit" : "rate";
const extraKind = isNumber ? "unit" : "points";
const gapKind = isNumber ? "unit" : "points";
const fairnessText = (i) => placeText(study.fairness[i]);

const errorName = study.tradeoff.error_name;
if (isNumber) {
  fill(byId("view-rates-title"), "Predictions and errors");
  fill(byId("view-scores-title"), "Distribution of predictions");
  fill(byId("view-continuous-title"), "Prediction along the attribute");
}
const unitWords = isNumber ? `units of ${brief(study.target.name, 40)}` : "percentage points";
setUnit(study.tradeoff.error.value[0]);
const curves = Object.keys(study.tradeoff.parity);
const atPlace = (series, i) => ({ value: series.value[i], low: series.low?.[i], high: series.high?.[i] });
const allOf = (series) => [...series.value, ...(series.low ?? []), ...(series.high ?? [])];
const noise = study.tradeoff.noise;
// The slider equalises decisions, not the mean score.
const decides = study.about.equalize === "decisions";
if (decides) fill(byId("view-tradeoff-title"), "Error against the gap between groups");
const extras = study.positions.map((position) => position.headline.error_extra ?? {});

// "0.6 points more than", "as much as", or "0.3 points less than" without fairness.
function extraWords(e) {
  const size = show(Math.abs(e.value), extraKind);
  const much = /^0(\.0*)?( |$)/.test(size) ? "as much" : `${size} ${e.value > 0 ? "more" : "less"}`;
  return [
    value("error_extra", e.value, much),
    much === "as much" ? " as without fairness" : " than without fairness",
  ];
}

function priceWords(i) {
  const e = extras[i];
  if (i === 0) return ["This is the model without fairness, to which all others are compared."];
  if (!known(e.value)) return [`The extra ${errorName} is not known.`];
  const sure = known(e.low) && known(e.high) ? e.low > 0 || e.high < 0 : null;
  return [
    `At fairness ${fairnessText(i)} the ${errorName} is `,
    extraWords(e),
    range(e, extraKind) ? ` (difference ${range(e, extraKind)})` : "",
    sure === null
      ? "."
      : sure
        ? "; the interval leaves out zero."
        : "; the interval includes zero, so chance alone could explain it.",
  ];
}

chart(
  "view-tradeoff",
  `Lower is more accurate, further left is fairer. Each line is the whole slider, from 0 to 1; the large mark is its position, ` +
    `with its intervals.` +
    (known(noise)
      ? ` The grey band, up to ${show(noise, "index")}, is the rough size that chance alone gives to a dependence that is truly zero.`
      : ""),
  ({ i }) => {
    const { tradeoff } = study;
    const x = axis(
      sentenceCase(label(tradeoff.parity_name, 140)),
      "index",
      ends(
        curves.flatMap((a) => allOf(tradeoff.parity[a])),
        { least: 0 },
      ),
    );
    const y = axis(
      sentenceCase(`${errorName}, held-out${isNumber ? `, ${label(unitWords, 50)}` : ""}`),
      errorKind,
      ends(allOf(tradeoff.error), { pad: 0.08 }),
    );
    const traces = curves.flatMap((attribute, j) => {
      const { colour, dash, marker } = look(j);
      const parity = tradeoff.parity[attribute],
        here = atPlace(parity, i),
        cost = atPlace(tradeoff.error, i);
      return [
        {
          x: parity.value,
          y: tradeoff.error.value,
          mode: "lines",
          line: { color: colour, dash, width: 2.2 },
          text: study.fairness.map(
            (f, k) =>
              `${label(attribute)}<br>fairness ${fairnessText(k)}<br>${show(tradeoff.error.value[k], errorKind)} · ${show(parity.value[k], "index")}`,
          ),
          hoverinfo: "text",
        },
        {
          x: [parity.value[0], parity.value.at(-1)],
          y: [tradeoff.error.value[0], tradeoff.error.value.at(-1)],
          text: ["0", "1"],
          mode: "markers+text",
          marker: { color: tone().paper, symbol: "circle", size: 7, line: { color: colour, width: 1.8 } },
          textposition: j % 2 ? "top center" : "bottom center",
          textfont: { color: tone().ink, size: 12.5, weight: 700 },
          cliponaxis: false,
          hoverinfo: "skip",
        },
        {
          x: [here.value],
          y: [cost.value],
          mode: "markers",
          hoverinfo: "skip",
          cliponaxis: false,
          marker: { color: colour, symbol: marker, size: 13, line: { color: tone().paper, width: 1.5 } },
          // Intervals of several attributes lie on one line: the later ones are thinner.
          error_x: error([here], {
            color: colour + "66",
            width: 0,
            thickness: 3 + 4 * (curves.length - 1 - j),
          }),
          error_y: error([cost], { color: colour }),
        },
      ];
    });
    const band = known(noise)
      ? [
          {
            type: "rect",
            xref: "x",
            yref: "paper",
            x0: x.range[0],
            x1: noise,
            y0: 0,
            y1: 1,
            fillcolor: tone().line,
            opacity: 0.16,
            line: { width: 0 },
            layer: "below",
          },
        ]
      : [];
    const parts = curves.map((a) => `${plain(a)} ${reading(atPlace(tradeoff.parity[a], i), "index")}`);
    return {
      traces,
      layout: layout(340, { xaxis: x, yaxis: y, shapes: band }),
      key: curves.map((a, j) => ({ text: columnName(a), ...look(j) })),
      say: [
        decides ? "Gap between groups of " : "Dependence on ",
        curves.map((a, j) => [
          j ? "; " : "",
          columnName(a),
          " ",
          estimate("parity", atPlace(tradeoff.parity[a], i), "index"),
        ]),
        ".",
      ],
      label: `Trade-off curve. At fairness ${fairnessText(i)}: ${errorName} ${reading(atPlace(tradeoff.error, i), errorKind)}; ${tradeoff.parity_name}: ${parts.join("; ")}.`,
      table: table(
        `${sentenceCase(errorName)} and ${tradeoff.parity_name}, held-out, at every position of the slider`,
        [
          right("Fairness"),
          right(sentenceCase(errorName)),
          ...(tradeoff.other ? [right(tradeoff.other_name)] : []),
          ...curves.map((a) => right(columnName(a))),
        ],
        study.fairness.map((f, k) => [
          { text: fairnessText(k) + (k === i ? " (now)" : ""), value: f, class: "right" },
          spread(atPlace(tradeoff.error, k), errorKind),
          ...(tradeoff.other ? [number(tradeoff.other[k], "index")] : []),
          ...curves.map((a) => spread(atPlace(tradeoff.parity[a], k), "index")),
        ]),
      ),
    };
  },
);

chart(
  "view-price",
  `${sentenceCase(errorName)} beyond that of the model without fairness, measured on the same held-out rows; the band is its interval.`,
  ({ i }) => {
    const times = KINDS[extraKind].times ?? 1;
    const by = (part) => extras.map((e) => (known(e[part]) ? times * e[part] : null));
    const { colour } = look(0);
    return {
      traces: [
        {
          x: study.fairness,
          y: by("low"),
          mode: "lines",
          line: { color: colour, width: 0 },
          hoverinfo: "skip",
        },
        {
          x: study.fairness,
          y: by("high"),
          mode: "lines",
          line: { color: colour, width: 0 },
          fill: "tonexty",
          fillcolor: tone().fill,
          hoverinfo: "skip",
        },
        {
          x: study.fairness,
          y: by("value"),
          mode: "lines",
          line: { color: colour, width: 2.2 },
          hoverinfo: "text",
          text: extras.map((e, k) => `fairness ${fairnessText(k)}<br>${reading(e, extraKind)}`),
        },
        {
          x: [study.fairness[i]],
          y: [by("value")[i]],
          mode: "markers",
          hoverinfo: "skip",
          cliponaxis: false,
          marker: { color: colour, size: 13, line: { color: tone().paper, width: 1.5 } },
          error_y: error([extras[i]], { color: colour }, times),
        },
      ],
      layout: layout(340, {
        xaxis: axis("Fairness (position of the slider)", "index", [-0.02, 1.02]),
        yaxis: axis(
          `Extra ${errorName}, ${isNumber ? label(unitWords, 50) : "points"}`,
          "index",
          ends([...by("value"), ...by("low"), ...by("high"), 0], { pad: 0.08 }),
          { zeroline: true, zerolinecolor: tone().grey },
        ),
      }),
      say: priceWords(i),
      label: `Extra ${errorName} along the slider. At fairness ${fairnessText(i)}: ${reading(extras[i], extraKind)}.`,
      table: table(
        `Extra ${errorName} against the model without fairness, held-out, in ${unitWords}`,
        [right("Fairness"), right(`Extra ${errorName}`), ...(isNumber ? [] : [right("Decisions changed")])],
        study.fairness.map((f, k) => [
          { text: fairnessText(k) + (k === i ? " (now)" : ""), value: f, class: "right" },
          spread(extras[k], extraKind),
          ...(isNumber ? [] : [whole(study.positions[k].headline.changed)]),
        ]),
      ),
    };
  },
);

// ------------------------------------------------------------------ changed decisions

const hasFavourable = (study.target.positive ?? null) !== null;
// The favourable class; of several classes without one, the class that is chosen on the page.
const outcomeText = (k) =>
  brief(named(study.target.name, study.target.positive ?? study.target.classes?.[k] ?? "positive"), 50);
const moved = (row, k) => (row.classes ? row.classes[k] : row);
const hasMoved = study.positions.some(
  (p) =>
    (likely.size && known(p.headline.changed)) ||
    Object.values(p.rates)
      .flat()
      .some((row) => known(moved(row, 0)?.now_chosen)),
);
const changedBody = element("div", { class: "held" });
byId("view-changed").append(
  element(
    "p",
    { class: "about" },
    "Held-out people who are predicted another class than without fairness, by group of every protected attribute.",
    [...likely.keys()].map((attribute) => [
      " Not by ",
      columnName(attribute),
      ", whose groups are known as probabilities: to count them needs the group of each person.",
    ]),
  ),
  changedBody,
);
byId("view-changed").hidden = !hasMoved;

function showChanged({ at, classIndex }) {
  if (!hasMoved) return;
  const changed = at.headline.changed,
    n = study.about.n_test,
    outcome = outcomeText(classIndex);
  const certain = Object.entries(at.rates).filter(([attribute]) => !likely.has(attribute));
  const parts = certain.map(([attribute, groups]) => [
    columnName(attribute),
    groups.map((row) => {
      const { now_chosen: now, no_longer_chosen: before } = moved(row, classIndex);
      return [
        named(attribute, row.group),
        whole(row.n),
        ...(row.few
          ? [tooFew(row.n), "", ""]
          : [whole(now), whole(before), whole(known(now) && known(before) ? now - before : null)]),
      ];
    }),
  ]);
  fill(
    changedBody,
    known(changed)
      ? element(
          "p",
          { class: "say" },
          value("changed", changed, count(changed)),
          ` of ${count(n)} held-out people (${show(changed / n, "rate")}) ${changed === 1 ? "is" : "are"} predicted another class than at fairness 0.`,
        )
      : null,
    parts.length
      ? scroller(
          "Changed decisions by group",
          partedTable(
            "Decisions changed against fairness 0, held-out",
            [
              "Group",
              right("Rows"),
              right(`Now predicted ${outcome}`),
              right(`No longer predicted ${outcome}`),
              right("Difference"),
            ],
            parts,
          ),
        )
      : null,
  );
}

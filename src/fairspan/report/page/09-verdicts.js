// The sheet for the person who signs: verdicts, what changed for whom, which data and model.

const MARKS = { kept: "✓", broken: "✗", "not provable": "?" };
const MOST_CLASSES = 4; // classes whose rates are shown; the others are in the sections below
const verdictCards = study.attributes
  .filter((attribute) => attribute.kind !== "crossed")
  .map((attribute, j) => {
    const body = element("div", { class: "held" });
    const id = `verdict-${j}`;
    byId("verdicts").append(
      element(
        "article",
        { class: "card wide", id, "aria-labelledby": `${id}-title` },
        element("h3", { id: `${id}-title` }, "By ", name(brief(attribute.name, 60))),
        body,
      ),
    );
    return { attribute, body };
  });

function verdictLine(one) {
  return element(
    "p",
    { class: "verdict", "data-verdict": one.verdict },
    element(
      "strong",
      { class: "mark" },
      element("span", { "aria-hidden": "true" }, MARKS[one.verdict], " "),
      sentenceCase(one.verdict),
    ),
    " ",
    one.words,
  );
}

// The measures of all rows, whichever the limit is about. The correlation of a rule is shown where it has a limit.
const aboutCorrelation = !hasFavourable || study.limits.given.some((one) => one.startsWith("correlation"));
const CORRELATION = "statistical_parity_correlation";
const SHOWN = [
  ["demographic_parity_ratio", "ratio of the rates", "index"],
  ["demographic_parity_difference", "gap", "points"],
  ["mean_prediction_difference", "gap between mean predictions", "unit"],
  [CORRELATION, `correlation of the ${isNumber ? "prediction" : decides ? "rule's margin" : "score"}`, "index"],
];

// Of a number no largest gap is shown: its slices are many and thin.
function measureLine(at, attribute) {
  const isCorrelated = attribute.kind === "continuous";
  const parts = SHOWN.flatMap(([metric, words, kind]) => {
    if (metric === CORRELATION ? !aboutCorrelation && !isCorrelated : isCorrelated) return [];
    const row = at.parity.find((p) => p.attribute === attribute.name && p.metric === metric && !p.where);
    return row && known(row.value) ? [[words, " ", estimate(metric, row, kind)]] : [];
  });
  if (!parts.length) return "";
  return element(
    "p",
    { class: "say measures" },
    parts.map(([words, ...rest], j) => [j ? "; " : "", j ? words : sentenceCase(words), ...rest]),
    ".",
  );
}

// Columns of what changed since fairness 0. Only a class that the user has named is known to be favourable.
function changeHeads() {
  const outcome = outcomeText(0);
  if (study.target.named) return [`Gained ${outcome}`, `Lost ${outcome}`];
  const other = (study.target.classes ?? []).filter((c) => c !== study.target.positive);
  const back = other.length === 1 ? brief(named(study.target.name, other[0]), 50) : `another class than ${outcome}`;
  return [`Changed to ${outcome}`, `Changed to ${back}`];
}

const people = (attribute) => right(likely.has(attribute) ? "People, expected" : "People");

function ratesTable(attribute, rows) {
  if (likely.has(attribute))
    return table(
      "Selection rates, estimated from the probabilities of the groups",
      ["Group", people(attribute), right(`Decided ${outcomeText(0)}`)],
      rows.map((row) => [
        named(attribute, row.group),
        whole(row.n),
        row.few ? tooFew(row.n) : small(row.selection_rate, row),
      ]),
    );
  const [to, from] = changeHeads();
  return table(
    "Selection rates, and decisions changed since fairness 0, in people",
    ["Group", right("People"), right(`Decided ${outcomeText(0)}`), right(to), right(from)],
    rows.map((row) => [
      named(attribute, row.group),
      whole(row.n),
      ...(row.few
        ? [tooFew(row.n), "", ""]
        : [small(row.selection_rate, row), whole(row.now_chosen), whole(row.no_longer_chosen)]),
    ]),
  );
}

const small = (e, row, kind = "rate") => spread({ ...e, small: row.small }, kind);

// Without a favourable class: every class by itself.
function classesTable(attribute, rows) {
  const classes = study.target.classes.slice(0, MOST_CLASSES);
  return partedTable(
    likely.has(attribute)
      ? "Shares of people by class, estimated from the probabilities of the groups"
      : "Shares of people by class, and decisions changed since fairness 0, in people",
    ["Group", people(attribute), right("Share"), ...(likely.has(attribute) ? [] : [right("Changed to it")])],
    classes.map((label, k) => [
      `Decided ${brief(named(study.target.name, label), 50)}`,
      rows.map((row) => {
        const part = row.classes?.[k];
        return [
          named(attribute, row.group),
          whole(row.n),
          ...(part ? [small(part.selection_rate, row), whole(part.now_chosen)] : [tooFew(row.n), ""]).slice(
            0,
            likely.has(attribute) ? 1 : 2,
          ),
        ];
      }),
    ]),
  );
}

function meansTable(attribute, rows) {
  const before = positions[0].rates[attribute];
  return table(
    "Mean predictions, and their change since fairness 0",
    ["Group", people(attribute), right("Mean prediction"), right("Change")],
    rows.map((row, g) => [
      named(attribute, row.group),
      whole(row.n),
      ...(row.few
        ? [tooFew(row.n), ""]
        : [
            small(row.mean_prediction, row, "unit"),
            number(row.mean_prediction.value - before[g].mean_prediction.value, "unit"),
          ]),
    ]),
  );
}

function showVerdicts({ i, at }) {
  const { changed } = at.headline;
  const n = study.about.n_test;
  const guessed = hasFavourable && !study.target.named;
  fill(
    byId("verdict-lead"),
    `On ${many(n, "held-out person", "held-out people")}, at fairness ${fairnessText(i)}. `,
    known(changed)
      ? [
          value("changed", changed, count(changed)),
          ` ${changed === 1 ? "person is" : "people are"} decided otherwise than at fairness 0. `,
        ]
      : "",
    guessed ? ["Rates are those of ", name(outcomeText(0)), ", a guess: --positive CLASS names the class. "] : "",
  );
  const equal = study.about.equalize ? `, equal ${study.about.equalize}` : "";
  fill(byId("origin-setting"), `fairness ${fairnessText(i)}${equal}`);
  for (const { attribute, body } of verdictCards) {
    const rows = at.rates[attribute.name] ?? [];
    const build = isNumber ? meansTable : hasFavourable ? ratesTable : classesTable;
    fill(
      body,
      at.verdicts.filter((one) => one.attribute === attribute.name).map(verdictLine),
      measureLine(at, attribute),
      attribute.words ? element("p", { class: "about assumed" }, attribute.words) : "",
      scroller(`Groups of ${brief(attribute.name, 60)}`, build(attribute.name, rows)),
      !isNumber && !hasFavourable && study.target.classes.length > MOST_CLASSES
        ? element("p", { class: "about" }, `The first ${MOST_CLASSES} of ${study.target.classes.length} classes.`)
        : "",
    );
    hold(body);
  }
}

// ------------------------------------------------------------------ which data, which model

const optionText = (x) => (Array.isArray(x) ? x.join(", ") : String(x));

function showOrigin() {
  const { provenance, reading, limits } = study;
  const { start } = study;
  const given = Object.entries({ ...provenance.options, limits: limits.given });
  const digest = (text) => element("code", { class: "digest" }, text);
  const facts = [
    ["Date", provenance.date],
    ["Data", [name(provenance.data_file ?? brief(study.about.data, 80)), provenance.data_file ? "" : " (table, as CSV)"]],
    ["SHA-256 of the data", digest(provenance.data_digest)],
    [
      "Model",
      [
        provenance.model_file ? [name(provenance.model_file), ": "] : "",
        study.about.model,
        `, fitted once for all settings; saved at fairness ${fairnessText(start)}`,
      ],
    ],
    ["Setting of this page", element("strong", { id: "origin-setting" })],
    [
      provenance.model_file ? "SHA-256 of the model" : "SHA-256 of the fitted parameters",
      digest(provenance.model_digest),
    ],
    ["Made by", [`fairspan ${study.about.version}`, study.about.command ? [": ", element("code", {}, study.about.command)] : ""]],
    ["Options of the run", given.map(([key, x], j) => [j ? "; " : "", `${key} `, name(brief(optionText(x), 80))])],
  ];
  add(
    byId("view-origin"),
    element(
      "dl",
      { class: "origin" },
      facts.map(([term, text]) => element("div", {}, element("dt", {}, term), element("dd", {}, text))),
    ),
    element(
      "p",
      { class: "sign" },
      ["Name", "Date", "Signature"].map((text) => element("span", {}, text)),
    ),
  );
  add(
    byId("view-reading"),
    element(
      "ol",
      { class: "plain" },
      reading.map((text) => element("li", {}, text)),
    ),
  );
}

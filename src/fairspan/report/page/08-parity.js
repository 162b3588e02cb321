// Parity with intervals, the certificate, and the columns that the model uses.

const metrics = [
  ...new Map(study.positions.flatMap((p) => p.parity).map((line) => [line.metric, line.words])).entries(),
];
const ownCorrelation = /correlation/.test(metrics[0]?.[0] ?? "");
const ratioLike = (metric) => /_ratio( \(|$)/.test(metric) && !/^correlation_ratio/.test(metric);

const metricSelect = element("select", { id: "metric" });
choices(
  metricSelect,
  metrics.map(([metric, text]) => [metric, sentenceCase(text || words(metric))]),
);
byId("view-parity").append(
  element("div", { class: "choice" }, element("label", { for: "metric" }, "Measure"), metricSelect),
);
byId("parity").querySelector("#view-parity").hidden = !metrics.length;

const parityKey = (line) => JSON.stringify([line.attribute, line.where]);
const parityName = (line, most) =>
  line.where ? `${brief(line.attribute, most)}, ${brief(line.where, most)}` : brief(line.attribute, most);

chart(
  "view-parity",
  `One line for each protected attribute${study.strata.length ? ", and for each stratum of the control features" : ""}, held-out. The dotted line is perfect parity. Open marks are based on few rows.` +
    (known(noise)
      ? ` For the measure that the slider controls, the grey band, up to ${show(noise, "index")}, is the rough size that chance alone gives to a dependence that is truly zero.`
      : ""),
  ({ i, at, metric }) => {
    const some = new Set(
      everywhere((p) => p.parity)
        .filter((line) => line.metric === metric && known(line.value))
        .map(parityKey),
    );
    const asked = at.parity.filter((line) => line.metric === metric);
    if (!asked.length) return null;
    // What has too few rows at every place of the slider is named, and not drawn.
    const drawn = asked.filter((line) => some.has(parityKey(line)));
    const missing = asked.filter((line) => !some.has(parityKey(line)));
    const lines = drawn.length ? drawn : asked;
    const kind = kindOf(metric),
      goal = ratioLike(metric) ? 1 : 0;
    const all = everywhere((p) =>
      p.parity.filter((l) => l.metric === metric).flatMap((l) => [l.value, l.low, l.high]),
    );
    const text = metrics.find(([m]) => m === metric)[1] || words(metric);
    const panel = {
      title:
        kind === "points"
          ? "Percentage points"
          : kind === "unit"
            ? `${words(metric)}, ${label(unitWords, 40)}`
            : sentenceCase(label(text, 60)),
      kind,
      line: goal,
      band: known(noise) && ownCorrelation && metric === metrics[0][0] ? noise : null,
      ends: goal ? [Math.min(ends(all)[0], 0.75), 1.02] : ends([...all, 0], { least: 0 }),
      rows: lines.map((line) => ({
        text: [line.attribute, line.where]
          .filter(Boolean)
          .map((part) => label(part, 20))
          .join("<br>"),
        dots: [
          {
            estimate: line,
            look: {
              ...look(0),
              marker: line.where ? "circle" : "diamond",
              colour: line.where ? tone().grey : look(0).colour,
            },
            tip: `${label(parityName(line, 30), 62)}<br>${reading(line, kind)}${line.note ? `<br>${label(line.note, 60)}` : ""}`,
          },
        ],
      })),
    };
    // If the criterion works within strata, list the strata.
    const inside = study.about.criterion === "conditional_statistical_parity";
    const listed = lines.filter((line) => Boolean(line.where) === inside);
    const main = listed.length ? listed : lines;
    return {
      ...dots([panel], lines.some((line) => line.where) ? 26 : 20),
      say: [
        sentenceCase(text),
        ": ",
        main.map((line, k) => [
          k ? "; " : "",
          name(parityName(line, 60)),
          " ",
          known(line.value) ? estimate("parity_gap", line, kind) : value("parity_gap", null, UNKNOWN),
        ]),
        ".",
        drawn.length && missing.length
          ? [
              " Too few rows to say: ",
              missing.map((line, k) => [k ? "; " : "", name(parityName(line, 60))]),
              ".",
            ]
          : "",
      ],
      label: `${sentenceCase(text)} at fairness ${fairnessText(i)}. ${lines.map((line) => `${parityName(line, 60)}: ${reading(line, kind)}`).join("; ")}.`,
      table: table(
        "All measures of parity at this position of the slider, held-out",
        ["Attribute", "Measure", ...(study.strata.length ? ["Where"] : []), right("Value"), "Note"],
        at.parity.map((line) => [
          line.attribute,
          wordy(sentenceCase(line.words || words(line.metric))),
          ...(study.strata.length ? [wordy(line.where || "all rows")] : []),
          spread(line, kindOf(line.metric)),
          wordy(line.note ?? ""),
        ]),
      ),
    };
  },
);

// ------------------------------------------------------------------ certificate

const certificateBody = element("div", { class: "held" });
byId("view-certificate").append(certificateBody);

function heldOut(one) {
  if (typeof one === "string") return sentence(one);
  return [
    name(brief(one.attribute, 60)),
    one.where ? [" in ", name(brief(one.where, 60))] : "",
    ": ",
    estimate("held_out_parity", one, "index"),
    one.note ? `; ${brief(noteWords(one.note), 240)}` : "",
  ];
}

function showCertificate({ i, at }) {
  const { certificate } = at;
  byId("view-certificate").hidden = !certificate;
  if (!certificate) return;
  const sup = certificate.in_sample_supremum;
  fill(
    certificateBody,
    element(
      "p",
      { class: "about" },
      `What the method promises at fairness ${fairnessText(i)}, and what it does not.`,
    ),
    element(
      "ul",
      { class: "promises" },
      (certificate.words ?? []).map((text) => element("li", {}, sentence(text))),
    ),
    known(sup)
      ? element(
          "p",
          { class: "say" },
          "On the training rows (in sample), the largest correlation left is ",
          value("in_sample_supremum", sup, sup < 1e-9 ? "zero up to rounding" : decimals(sup, 3)),
          ".",
        )
      : null,
    certificate.held_out?.length
      ? [
          element(
            "p",
            { class: "say" },
            "On held-out rows, the largest correlation of any function that the model could use:",
          ),
          element(
            "ul",
            { class: "plain" },
            certificate.held_out.map((one) => element("li", {}, heldOut(one))),
          ),
        ]
      : null,
  );
}

// ------------------------------------------------------------------ importance

const { importance } = study;
const atZero = () => ({ colour: look(1).colour, marker: "circle", open: true });
const atOne = () => ({ colour: look(0).colour, marker: "diamond" });
const MOST_COLUMNS = 15; // in the chart; the table has all

// The columns that moved most, and always the two that the model leans on most.
function drawnColumns(features) {
  const weight = (f) => Math.max(f.at_0.value ?? 0, f.at_1.value ?? 0);
  const heaviest = [...features].sort((a, b) => weight(b) - weight(a)).slice(0, 2);
  const moved = features.filter((f) => !heaviest.includes(f)).slice(0, MOST_COLUMNS - heaviest.length);
  const drawn = features.filter((f) => heaviest.includes(f) || moved.includes(f));
  return { heaviest: heaviest[0], drawn };
}

chart(
  "view-importance",
  `${sentenceCase(importance?.name ?? "")}, held-out: how much the model relies on each column at fairness 0 and at fairness 1. The slider does not change this view.`,
  () => {
    if (!importance?.features.length) return null;
    const { features } = importance;
    const { heaviest, drawn } = drawnColumns(features);
    const all = drawn.flatMap((f) => [f.at_0, f.at_1]).flatMap((e) => [e.value, e.low, e.high]);
    const rows = drawn.map((f) => ({
      text: label(f.name, 22),
      dots: [
        [f.at_0, atZero(), "fairness 0"],
        [f.at_1, atOne(), "fairness 1"],
      ].map(([e, style, where]) => ({
        estimate: e,
        look: style,
        tip: `${label(f.name)}<br>${f.description ? `${label(f.description)}<br>` : ""}${where}: ${reading(e, extraKind)}`,
      })),
    }));
    const [most] = features;
    return {
      ...dots(
        [
          {
            title: `Extra ${errorName} when the column is shuffled, ${label(unitWords, 50)}`,
            kind: extraKind,
            ends: ends([...all, 0]),
            line: 0,
            rows,
          },
        ],
        9,
        9,
      ),
      key: [
        { text: "at fairness 0 (accuracy first)", ...atZero() },
        { text: "at fairness 1 (fairness first)", ...atOne() },
      ],
      say: [
        "Most changed: ",
        name(brief(most.name, 60)),
        ", from ",
        estimate("importance_at_0", most.at_0, extraKind),
        " to ",
        estimate("importance_at_1", most.at_1, extraKind),
        heaviest === most
          ? ""
          : [
              ". Relies most on ",
              name(brief(heaviest.name, 60)),
              ": ",
              show(heaviest.at_0.value, extraKind),
              " and ",
              show(heaviest.at_1.value, extraKind),
            ],
        isNumber
          ? ". "
          : `. One held-out row makes ${show(1 / study.about.n_test, extraKind)}. `,
        importance.note ? sentence(importance.note) : "",
        drawn.length < features.length ? ` The chart shows ${count(drawn.length)} of them; the table shows all.` : "",
      ],
      label: `Importance of columns at both ends. ${features
        .slice(0, 5)
        .map(
          (f) =>
            `${plain(f.name)}: ${reading(f.at_0, extraKind)} at fairness 0, ${reading(f.at_1, extraKind)} at fairness 1`,
        )
        .join("; ")}.`,
      table: table(
        `${sentenceCase(importance.name)}, held-out`,
        ["Column", right("At fairness 0"), right("At fairness 1")],
        features.map((f) => [f.name, spread(f.at_0, extraKind), spread(f.at_1, extraKind)]),
      ),
    };
  },
);

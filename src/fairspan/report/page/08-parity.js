// Parity with intervals, and the certificate.

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
          columnName(line.attribute),
          line.where ? [", ", name(brief(line.where, 60))] : "",
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
          columnName(line.attribute),
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
    columnName(one.attribute),
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
    likely.size
      ? element(
          "p",
          { class: "about" },
          "By ",
          listed([...likely.keys()]),
          ", the largest correlation of any function on held-out rows is not known, because it needs the group of each row.",
        )
      : null,
  );
}

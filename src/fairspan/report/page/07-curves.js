// Calibration, scores along a continuous attribute, and tables of right and wrong decisions.

const FEW = 10; // rows

chart(
  "view-calibration",
  `Held-out rows are cut into equal parts by the ${isNumber ? "prediction" : "predicted probability"}; a mark is one group's rows in one part: ` +
    `${isNumber ? "their mean prediction, and their mean actual value" : "their mean predicted probability, and how often the outcome occurred"}. ` +
    `On the dotted line both agree. Small open marks are based on fewer than ${FEW} rows.`,
  ({ i, at, attribute }) => {
    const groups = at.calibration?.[attribute];
    if (!groups?.length) return null;
    const all = everywhere((p) =>
      (p.calibration?.[attribute] ?? []).flatMap((g) => g.points.flatMap((q) => [q.predicted, q.actual])),
    );
    const both = isNumber ? ends(all) : [-0.02, 1.02];
    const traces = groups.map((group, g) => {
      const { colour, dash, marker } = look(g);
      const sure = group.points.filter((q) => q.n >= FEW),
        unsure = group.points.filter((q) => q.n < FEW);
      const points = [
        ...sure,
        { predicted: null, actual: null },
        ...unsure.flatMap((q) => [q, { predicted: null, actual: null }]),
      ];
      return {
        x: points.map((q) => q.predicted),
        y: points.map((q) => q.actual),
        mode: groups.length > MOST_OVERLAID ? "markers" : "lines+markers",
        hoverinfo: "text",
        cliponaxis: false,
        line: { color: colour, dash, width: 1.4 },
        marker: {
          color: points.map((q) => (q.n < FEW ? tone().paper : colour)),
          symbol: marker,
          opacity: 1,
          size: points.map((q) => (q.n < FEW ? 6 : 9)),
          line: { color: colour, width: 1.2 },
        },
        text: points.map(
          (q) =>
            `${label(named(attribute, group.group))}<br>predicted ${show(q.predicted, scoreKind)}, actual ${show(q.actual, scoreKind)}<br>${many(q.n, "row")}`,
        ),
      };
    });
    const diagonal = {
      type: "line",
      xref: "x",
      yref: "y",
      x0: both[0],
      y0: both[0],
      x1: both[1],
      y1: both[1],
      line: { color: tone().grey, width: 1.2, dash: "dot" },
      layer: "below",
    };
    const errors = groups.filter((g) => known(g.error?.value));
    const kind = isNumber ? "unit" : "points";
    const sorted = [...errors].sort((a, b) => a.error.value - b.error.value);
    const crowd = errors.length > MOST_OVERLAID;
    const spoken = crowd ? [sorted[0], sorted.at(-1)] : errors;
    return {
      traces,
      layout: layout(330, {
        xaxis: axis(isNumber ? `Predicted ${label(study.target.name, 40)}, mean` : scoreAxis, "index", both),
        yaxis: axis(
          isNumber ? `Actual ${label(study.target.name, 40)}, mean` : "Observed share",
          "index",
          both,
        ),
        shapes: [diagonal],
      }),
      key: groups.map((group, g) => ({
        text: named(attribute, group.group) + (group.points.length ? "" : " (too few rows to draw)"),
        ...look(g),
        ...(groups.length > MOST_OVERLAID && { dash: null }),
      })),
      say: errors.length
        ? [
            "Mean distance from the line: ",
            spoken.map((g, k) => [
              k ? "; " : "",
              crowd ? (k ? "largest for " : "smallest for ") : "",
              name(brief(named(attribute, g.group), 40)),
              " ",
              estimate("calibration_error", g.error, kind),
            ]),
            ".",
          ]
        : null,
      label: `Calibration by group of ${plain(attribute)} at fairness ${fairnessText(i)}. ${errors.map((g) => `${plain(named(attribute, g.group))}: mean distance ${reading(g.error, kind)}`).join("; ") || "See the table."}`,
      table: table(
        `Calibration by group of ${attribute}, held-out`,
        ["Group", right("Predicted"), right(isNumber ? "Actual" : "Observed"), right("Rows")],
        groups.flatMap((g) =>
          g.points.map((q) => [
            named(attribute, g.group),
            number(q.predicted, scoreKind),
            number(q.actual, scoreKind),
            whole(q.n),
          ]),
        ),
      ),
    };
  },
);

chart(
  "view-continuous",
  "Dots are held-out rows (a sample, if there are many); diamonds are means in slices of the attribute, with intervals. A level line of diamonds means no dependence of the mean." +
    otherScore,
  ({ i, at, attribute }) => {
    const now = at.continuous?.[attribute];
    if (!now) return null;
    const where = study.scatter?.[attribute] ?? [];
    const all = everywhere((p) => [
      ...(p.continuous[attribute]?.scores ?? []),
      ...(p.continuous[attribute]?.binned ?? []).flatMap((b) => [b.low, b.high]),
    ]);
    const strong = look(1).colour;
    const means = now.binned.map((b) => ({ value: b.mean, low: b.low, high: b.high }));
    const steps = means.filter((m) => known(m.value)).map((m) => m.value);
    const parity = study.tradeoff.parity[attribute];
    return {
      traces: [
        {
          x: where,
          y: now.scores,
          mode: "markers",
          hoverinfo: "skip",
          marker: { color: look(0).colour, size: 4.5, opacity: 0.35 },
        },
        {
          x: now.binned.map((b) => b.at),
          y: means.map((m) => m.value),
          mode: "lines+markers",
          hoverinfo: "text",
          cliponaxis: false,
          line: { color: strong, width: 1.6 },
          marker: { color: strong, symbol: "diamond", size: 10, line: { color: tone().paper, width: 1 } },
          error_y: error(means, { color: strong }),
          text: now.binned.map(
            (b, k) =>
              `${label(attribute)} about ${show(b.at)}<br>mean ${reading(means[k], scoreKind)}<br>${many(b.n, "row")}`,
          ),
        },
      ],
      layout: layout(330, {
        xaxis: axis(
          label(attribute, 40),
          "index",
          ends([...where, ...now.binned.map((b) => b.at)], { pad: 0.03 }),
        ),
        yaxis: axis(scoreAxis, "index", scoreEnds ?? ends(all, { pad: 0.03 })),
      }),
      key: [
        { text: "held-out row", colour: look(0).colour, marker: "circle" },
        { text: "mean of a slice", colour: strong, marker: "diamond" },
      ],
      say: [
        slopeParts(at, attribute),
        "Means of the slices range from ",
        value("lowest_mean", Math.min(...steps), show(Math.min(...steps), scoreKind)),
        " to ",
        value("highest_mean", Math.max(...steps), show(Math.max(...steps), scoreKind)),
        parity
          ? [
              decides
                ? "; gap of decisions between slices of "
                : study.about.probable
                  ? "; correlation of the raw score with "
                  : "; correlation with ",
              columnName(attribute),
              " ",
              estimate("parity", atPlace(parity, i), "index"),
            ]
          : "",
        ".",
      ],
      label: `Score along ${plain(attribute)} at fairness ${fairnessText(i)}. Means of slices: ${now.binned.map((b, k) => `about ${show(b.at)}: ${reading(means[k], scoreKind)}`).join("; ")}.`,
      table: table(
        `Mean ${isNumber ? "prediction" : "score"} in slices of ${attribute}, held-out`,
        [right(attribute), right("Mean"), right("Rows")],
        now.binned.map((b, k) => [
          { text: show(b.at), value: b.at, class: "right" },
          spread(means[k], scoreKind),
          whole(b.n),
        ]),
      ),
    };
  },
);

// ------------------------------------------------------------------ confusion

const confusionBody = element("div", {});
byId("view-confusion").append(
  element("p", { class: "about" }, "Counts of held-out rows: what was decided, and whether it was right."),
  confusionBody,
);

function showConfusion({ at, attribute, classIndex }) {
  const rows = (at.rates?.[attribute] ?? []).map((row) => ({
    ...row,
    counts: (row.classes ? row.classes[classIndex]?.confusion : row.confusion) ?? null,
  }));
  const some = rows.some((row) => row.counts);
  byId("view-confusion").hidden = !some;
  if (!some) return;
  const outcome = outcomeText(classIndex);
  const head = (text, attributes) => element("th", attributes, text);
  const order = ["tp", "fp", "tn", "fn"];
  const body = rows.map((row) =>
    element(
      "tr",
      {},
      cell(named(attribute, row.group), "th", "row"),
      cell(whole(row.n), "td"),
      order.map((part) =>
        element(
          "td",
          { class: "right", "data-value": row.counts?.[part], "data-metric": part },
          row.few ? tooFew(row.n) : count(row.counts?.[part]),
        ),
      ),
    ),
  );
  fill(
    confusionBody,
    scroller(
      "Right and wrong decisions by group",
      element(
        "table",
        {},
        element("caption", {}, "Decisions by group of ", columnName(attribute), ", held-out"),
        element(
          "thead",
          {},
          element(
            "tr",
            {},
            head("Group", { rowspan: 2, scope: "col" }),
            head("Rows", { rowspan: 2, scope: "col", class: "right" }),
            head(["Decided ", name(outcome)], { colspan: 2, scope: "colgroup", class: "right" }),
            head(["Decided not ", name(outcome)], { colspan: 2, scope: "colgroup", class: "right" }),
          ),
          element(
            "tr",
            {},
            ["right", "wrong", "right", "wrong"].map((text) =>
              head(text, { scope: "col", class: "right" }),
            ),
          ),
        ),
        element("tbody", {}, body),
      ),
    ),
  );
}

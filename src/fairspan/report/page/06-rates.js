// Dots with intervals, and the rates of each group drawn by them.

const RATES = [
  "selection_rate",
  "true_positive_rate",
  "false_positive_rate",
  "positive_predictive_value",
  "accuracy",
];
const NUMBERS = ["mean_prediction", "mean_error", "root_mean_squared_error"];
const rateOf = (row, metric, k) =>
  (row.classes && metric !== "accuracy" ? row.classes[k]?.[metric] : row[metric]) ?? {};

// Panels of dots and intervals, one below the other (or in two columns), each with its own axis.
// panels: [{ title, kind, ends, rows: [{ text, dots: [{ estimate, look, tip }] }], line, band }]
function dots(panels, perDot = 15, gap = 14, columns = 1) {
  const sizes = panels.map((p) => p.rows.reduce((sum, row) => sum + row.dots.length * perDot + gap, 0));
  const foot = 70,
    below = 44,
    total = sizes.reduce((a, b, p) => (p % columns ? a : a + b + foot), -foot);
  const traces = [],
    axes = {};
  let top = 1;
  panels.forEach((panel, p) => {
    const suffix = p ? String(p + 1) : "",
      times = KINDS[panel.kind].times ?? 1;
    const bottom = top - sizes[p] / total;
    const ticks = [],
      texts = [],
      lines = [];
    let y = 0;
    for (const row of panel.rows) {
      ticks.push(
        ...(row.texts ?? [row.text]).map(
          (_, j, { length }) => y + ((j + 0.5) * row.dots.length * perDot) / length,
        ),
      );
      texts.push(...(row.texts ?? [row.text]));
      for (const { estimate: e, look: style, tip } of row.dots) {
        y += perDot;
        traces.push({
          x: [known(e.value) ? times * e.value : null],
          y: [y - perDot / 2],
          xaxis: "x" + suffix,
          yaxis: "y" + suffix,
          mode: "markers",
          marker: {
            color: e.small || style.open ? tone().paper : style.colour,
            symbol: style.marker,
            size: 9,
            line: { color: style.colour, width: 1.8 },
          },
          error_x: error([e], { color: style.colour }, times),
          text: [tip],
          hoverinfo: "text",
          cliponaxis: false,
        });
      }
      y += gap;
      lines.push(y - gap / 2);
    }
    axes["xaxis" + suffix] = axis(
      panel.title,
      panel.kind,
      panel.ends.map((x) => times * x),
      { anchor: "y" + suffix, ...(columns > 1 && { domain: p % columns ? [0.58, 1] : [0, 0.42] }) },
    );
    axes["yaxis" + suffix] = {
      domain: [Math.max(bottom, 0), top],
      range: [y - gap / 2, -gap / 2],
      anchor: "x" + suffix,
      fixedrange: true,
      tickvals: ticks,
      ticktext: texts,
      automargin: true,
      showgrid: false,
      zeroline: false,
      ticks: "",
      showline: true,
      linecolor: tone().line,
    };
    (axes.shapes ??= []).push(
      ...lines.slice(0, -1).map((at) => ({
        type: "line",
        xref: `x${suffix} domain`,
        yref: "y" + suffix,
        x0: 0,
        x1: 1,
        y0: at,
        y1: at,
        line: { color: tone().grid, width: 1 },
        layer: "below",
      })),
      ...(known(panel.band)
        ? [
            {
              type: "rect",
              xref: "x" + suffix,
              yref: `y${suffix} domain`,
              x0: panel.ends[0],
              x1: panel.band,
              y0: 0,
              y1: 1,
              fillcolor: tone().line,
              opacity: 0.16,
              line: { width: 0 },
              layer: "below",
            },
          ]
        : []),
      ...(known(panel.line)
        ? [
            {
              type: "line",
              xref: "x" + suffix,
              yref: `y${suffix} domain`,
              x0: times * panel.line,
              x1: times * panel.line,
              y0: 0,
              y1: 1,
              line: { color: tone().grey, width: 1.2, dash: "dot" },
              layer: "below",
            },
          ]
        : []),
    );
    if ((p + 1) % columns === 0) top = bottom - foot / total;
  });
  return { traces, layout: layout(total + 8 + below, { ...axes, margin: { l: 8, r: 16, t: 8, b: below } }) };
}

const wrapped = (text) => text.replace(/ (?=\S+$)/, "<br>");

// One dot for each group under a common name, or, of many groups, a panel for each measure with the
// groups named beside it.
function ratePanels(attribute, rows, shown, k) {
  const tip = (row, m) =>
    `${label(named(attribute, row.group))}<br>${words(m)}: ${reading(rateOf(row, m, k), kindOf(m))}`;
  const dot = (row, m, style) => ({
    estimate: { small: row.small, ...rateOf(row, m, k) },
    look: style,
    tip: tip(row, m),
  });
  const span = (m) =>
    allRates(attribute).flatMap((row) => {
      const e = rateOf(row, m, k);
      return [e.value, e.low, e.high];
    });
  const limits = (m) => (isNumber ? ends(span(m), { pad: 0.06 }) : [-0.02, 1.02]);
  const goal = (m) => (m === "mean_error" ? 0 : null);
  if (rows.length > MOST_OVERLAID) {
    return shown.map((m) => ({
      title: words(m),
      kind: kindOf(m),
      ends: limits(m),
      line: goal(m),
      rows: [
        {
          text: "",
          dots: rows.map((row) => dot(row, m, look(0))),
          texts: rows.map((row) => label(named(attribute, row.group), 24)),
        },
      ],
    }));
  }
  if (isNumber) {
    return shown.map((m) => ({
      title: `${words(m)}, ${label(unitWords, 40)}`,
      kind: "unit",
      ends: limits(m),
      line: goal(m),
      rows: [{ text: "", dots: rows.map((row, g) => dot(row, m, look(g))) }],
    }));
  }
  return [
    {
      title: "Share of the group, held-out",
      kind: "rate",
      ends: [-0.02, 1.02],
      rows: shown.map((m) => ({ text: wrapped(words(m)), dots: rows.map((row, g) => dot(row, m, look(g))) })),
    },
  ];
}

// Many groups make a tall chart: it takes the whole row, after the others.
function placeRates(crowd) {
  const card = byId("view-rates"),
    row = card.parentElement;
  if (card.classList.contains("wide") === crowd) return;
  card.classList.toggle("wide", crowd);
  row.insertBefore(card, crowd ? null : byId("view-calibration"));
}

chart(
  "view-rates",
  isNumber
    ? `Mean prediction and errors of each group, held-out, with intervals, in ${unitWords}. Open marks are based on few rows.`
    : "How each group is treated, held-out, with intervals. Selection rate: the share decided so. True and " +
        "false positive rate: the same among those for whom it is right, and for whom it is wrong. " +
        "Positive predictive value: how often it is right when decided so. Open marks are based on few rows.",
  ({ i, at, attribute, classIndex: k }) => {
    const rows = at.rates?.[attribute];
    if (!rows?.length) return null;
    const shown = (isNumber ? NUMBERS : RATES).filter((m) =>
      allRates(attribute).some((row) => known(rateOf(row, m, k).value)),
    );
    if (!shown.length) return null;
    const first = shown[0];
    const sorted = rows
      .filter((row) => known(rateOf(row, first, k).value))
      .sort((a, b) => rateOf(a, first, k).value - rateOf(b, first, k).value);
    const said = (row) => [
      name(brief(named(attribute, row.group), 60)),
      " ",
      estimate(first, rateOf(row, first, k), kindOf(first)),
    ];
    const crowd = rows.length > MOST_OVERLAID;
    placeRates(crowd);
    const columns = crowd && paper === null && byId("main").clientWidth > 860 ? 2 : 1;
    return {
      ...dots(ratePanels(attribute, rows, shown, k), 16, 14, columns),
      key: crowd
        ? null
        : rows.map((row, g) => ({
            text: `${named(attribute, row.group)} (${row.few ? tooFew(row.n) : (likely.has(attribute) ? "about " : "") + many(row.n, "row")})`,
            colour: look(g).colour,
            marker: look(g).marker,
          })),
      say:
        sorted.length > 1
          ? [`${words(first)}: lowest for `, said(sorted[0]), ", highest for ", said(sorted.at(-1)), "."]
          : null,
      label: `Rates by group of ${plain(attribute)} at fairness ${fairnessText(i)}. ${shown.map((m) => `${words(m)}: ${rows.map((row) => `${plain(named(attribute, row.group))} ${reading(rateOf(row, m, k), kindOf(m))}`).join("; ")}`).join(". ")}.`,
      table: table(
        `Rates by group of ${attribute}, held-out`,
        ["Group", right(likely.has(attribute) ? "Rows, expected" : "Rows"), ...shown.map((m) => right(words(m)))],
        rows.map((row) => [
          named(attribute, row.group),
          whole(row.n),
          ...shown.map((m) =>
            row.few ? tooFew(row.n) : spread({ small: row.small, ...rateOf(row, m, k) }, kindOf(m)),
          ),
        ]),
      ),
    };
  },
);

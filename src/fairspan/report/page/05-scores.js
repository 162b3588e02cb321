// How scores are spread in the groups of one protected attribute.

const groupsOf = (attribute) => study.attributes.find((a) => a.name === attribute)?.groups ?? [];
const allRates = (attribute) => study.positions.flatMap((p) => p.rates[attribute] ?? []);
const everywhere = (pick) => study.positions.flatMap((p) => pick(p) ?? []);
const scoreWords = study.about.score_words ?? (isNumber ? `predicted ${study.target.name}` : "score");
const scoreAxis = sentenceCase(label(scoreWords, 50));
// Scores that are no probabilities have no ends of their own.
const scoreEnds = study.about.probable ? [-0.01, 1.01] : null;
const otherScore = decides
  ? " The slider equalises decisions: probabilities are about the target alone and do not move."
  : study.about.probable
    ? " The slider equalises means of the raw score; averages of the probabilities can still differ a little."
    : "";
const tooFew = (n) => `too few rows (${count(n)})`;
const scoreKind = isNumber ? "unit" : "index";

// More groups than the eye can tell apart get a line of their own each, with their name beside it.
const MOST_OVERLAID = 6;

chart(
  "view-scores",
  `How the ${plain(scoreWords)} is spread in each group, held-out. The more alike the shapes, the less the score depends on the group. Marks above the shapes, or lines across them, are the means.${otherScore}`,
  ({ i, at, attribute }) => {
    const now = at.scores?.[attribute];
    if (!now) return null;
    const labels = groupsOf(attribute).map((g) => named(attribute, g.label));
    const all = everywhere((p) => (p.scores[attribute] ? [p.scores[attribute]] : []));
    const xaxis = axis(
      scoreAxis,
      "index",
      scoreEnds ??
        ends(
          all.flatMap((s) => [s.edges[0], s.edges.at(-1)]),
          { pad: 0.02 },
        ),
    );
    const top = ends(
      all.flatMap((s) => s.shares.flat()),
      { least: 0, pad: 0.06 },
    )[1];
    const ks = now.ks ?? {};
    const between =
      ks.groups?.length === 2
        ? [
            ", between ",
            name(brief(named(attribute, ks.groups[0]), 60)),
            " and ",
            name(brief(named(attribute, ks.groups[1]), 60)),
          ]
        : [];
    const crowd = labels.length > MOST_OVERLAID;
    return {
      ...(crowd ? ridges(now, labels, xaxis, top) : overlaid(now, labels, xaxis, top)),
      key: crowd
        ? null
        : labels.map((text, g) => ({
            text: known(now.means[g]) ? text : `${text}: ${tooFew(groupsOf(attribute)[g].n)}`,
            ...look(g),
          })),
      say: known(ks.value)
        ? [
            "Largest distance between two groups (KS, from 0 to 1): ",
            value("ks", ks.value, show(ks.value, "index")),
            between,
            ".",
          ]
        : ["Too few rows in the groups to compare them (KS)."],
      label: `Distribution of scores by group of ${plain(attribute)} at fairness ${fairnessText(i)}. Largest distance (KS) ${show(ks.value, "index")}. Means: ${labels.map((l, g) => `${plain(l)} ${show(now.means[g], scoreKind)}`).join("; ")}.`,
      table: scoreTable(attribute, now, labels),
    };
  },
);

function steps(now, g, labels, raise = 0) {
  const shares = now.shares[g];
  return {
    x: now.edges,
    y: [...shares, shares.at(-1)].map((y) => (known(y) ? y + raise : null)),
    mode: "lines",
    hoverinfo: "text",
    text: now.edges.map(
      (edge, b) =>
        `${label(labels[g])}<br>${show(edge)} to ${show(now.edges[b + 1] ?? edge)}<br>${show(shares[b] ?? shares.at(-1), "rate")} of the group`,
    ),
  };
}

function overlaid(now, labels, xaxis, top) {
  const traces = labels.map((_, g) => ({
    ...steps(now, g, labels),
    line: { shape: "hv", color: look(g).colour, dash: look(g).dash, width: 2 },
  }));
  const means = now.means.map((mean, g) => ({
    x: [mean],
    y: [top * 1.05],
    mode: "markers",
    marker: { color: look(g).colour, symbol: look(g).marker, size: 10, line: { color: tone().paper, width: 1 } },
    text: [`${label(labels[g])}<br>mean ${show(mean, scoreKind)}`],
    hoverinfo: "text",
    cliponaxis: false,
  }));
  return {
    traces: [...traces, ...means],
    layout: layout(330, { xaxis, yaxis: axis("Share of the group", "rate", [0, top * 1.12]) }),
  };
}

function ridges(now, labels, xaxis, top) {
  const foot = (g) => labels.length - 1 - g,
    high = 0.92 / top,
    colour = look(0).colour;
  const scaled = { ...now, shares: now.shares.map((row) => row.map((y) => (known(y) ? y * high : null))) };
  const traces = labels.flatMap((_, g) => [
    {
      x: [now.edges[0], now.edges.at(-1)],
      y: [foot(g), foot(g)],
      mode: "lines",
      line: { color: tone().line, width: 0.8 },
      hoverinfo: "skip",
    },
    {
      ...steps(scaled, g, labels, foot(g)),
      text: steps(now, g, labels).text,
      line: { shape: "hv", color: colour, width: 1.5 },
      fill: "tonexty",
      fillcolor: tone().fill,
    },
  ]);
  const shapes = now.means.flatMap((mean, g) =>
    known(mean)
      ? [
          {
            type: "line",
            xref: "x",
            yref: "y",
            x0: mean,
            x1: mean,
            y0: foot(g),
            y1: foot(g) + 0.85,
            line: { color: look(1).colour, width: 2 },
          },
        ]
      : [],
  );
  const yaxis = axis("", "index", [-0.05, labels.length], {
    tickvals: labels.map((_, g) => foot(g) + 0.3),
    ticktext: labels.map((l) => label(l, 24)),
    showgrid: false,
    ticks: "",
  });
  return { traces, layout: layout(60 + 34 * labels.length, { xaxis, yaxis, shapes }) };
}

function scoreTable(attribute, now, labels) {
  // Quarters of the axis rather than 30 bins: what a reader can hold in mind.
  const bins = now.edges.length - 1,
    size = Math.ceil(bins / 5);
  const starts = Array.from({ length: Math.ceil(bins / size) }, (_, k) => k * size);
  return table(
    `Scores by group of ${attribute}, held-out: mean, and share of the group in parts of the axis`,
    [
      "Group",
      right("Mean"),
      ...starts.map((s) => right(`${show(now.edges[s])} to ${show(now.edges[Math.min(s + size, bins)])}`)),
    ],
    labels.map((text, g) => [
      text,
      ...(known(now.means[g])
        ? [
            number(now.means[g], scoreKind),
            ...starts.map((s) =>
              number(
                now.shares[g].slice(s, s + size).reduce((a, b) => a + b, 0),
                "rate",
              ),
            ),
          ]
        : [tooFew(groupsOf(attribute)[g].n), ...starts.map(() => "")]),
    ]),
  );
}

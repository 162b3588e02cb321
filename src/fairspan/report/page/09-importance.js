// Which columns the model uses at the end of the slider that is nearer; those of small effect are folded.

const { importance } = study;
const ENDS = [
  { part: "at_0", words: "fairness 0", long: "at fairness 0 (accuracy first)", style: () => ({ colour: look(1).colour, marker: "circle", open: true }) },
  { part: "at_1", words: "fairness 1", long: "at fairness 1 (fairness first)", style: () => ({ colour: look(0).colour, marker: "diamond" }) },
];
const SMALL_SHARE = 0.1; // of the largest effect; a column below it at both ends is folded
const FEWEST_DRAWN = 5;
const MOST_DRAWN = 15;
const nearerEnd = (i) => (study.fairness[i] >= 0.5 ? 1 : 0);
const effect = (f, { part }) => Math.abs(f[part].value ?? 0);

// The columns by their effect at one end, largest first, and how many of them are drawn.
function rankedColumns(end) {
  const features = [...importance.features].sort((a, b) => effect(b, end) - effect(a, end));
  const most = (f) => Math.max(...ENDS.map((e) => effect(f, e)));
  const least = SMALL_SHARE * Math.max(...features.map(most));
  const large = features.filter((f) => most(f) > 0 && most(f) >= least).slice(0, MOST_DRAWN);
  for (const f of features) if (large.length < FEWEST_DRAWN && !large.includes(f)) large.push(f);
  return { features, large: features.filter((f) => large.includes(f)), small: features.filter((f) => !large.includes(f)) };
}

let unfolded = false;
const unfold = element("button", { type: "button", class: "fold", "aria-expanded": "false" });

const importanceChart = chart(
  "view-importance",
  `${sentenceCase(importance?.name ?? "")}, held-out: how much the model relies on each column at fairness 0 and at fairness 1. ` +
    "The columns are in the order of their effect at the end of the slider that is nearer, largest first.",
  ({ i }) => {
    if (!importance?.features.length) return null;
    const end = ENDS[nearerEnd(i)];
    const other = ENDS[1 - nearerEnd(i)];
    const { features, large, small } = rankedColumns(end);
    const drawn = unfolded ? features : large;
    const all = features.flatMap((f) => [f.at_0, f.at_1]).flatMap((e) => [e.value, e.low, e.high]);
    const rows = drawn.map((f) => ({
      text: label(f.name, innerWidth < 560 ? 22 : 44),
      dots: ENDS.map(({ part, words: where, style }) => ({
        estimate: f[part],
        look: style(),
        tip: `${label(f.name)}<br>${f.description ? `${label(f.description, 90)}<br>` : ""}${where}: ${reading(f[part], extraKind)}`,
      })),
    }));
    const change = (f) => Math.abs((f.at_1.value ?? 0) - (f.at_0.value ?? 0));
    const first = features[0];
    const moved = features.reduce((a, b) => (change(b) > change(a) ? b : a));
    unfold.hidden = !small.length;
    unfold.setAttribute("aria-expanded", unfolded);
    fill(
      unfold,
      unfolded
        ? "Fold the columns of small effect"
        : `Show ${many(small.length, "more column")}: each moves the ${errorName} less`,
    );
    const line = (f) => [columnName(f.name), spread(f.at_0, extraKind), spread(f.at_1, extraKind)];
    const heads = ["Column", right("At fairness 0"), right("At fairness 1")];
    const caption = `${sentenceCase(importance.name)}, held-out`;
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
      key: ENDS.map(({ long, style }) => ({ text: long, ...style() })),
      say: [
        `At ${end.words} the model relies most on `,
        columnName(first.name),
        ": ",
        estimate(`importance_${end.part}`, first[end.part], extraKind),
        `; at ${other.words}: `,
        estimate(`importance_${other.part}`, first[other.part], extraKind),
        moved === first
          ? ""
          : [". Most changed: ", columnName(moved.name), `, from ${show(moved.at_0.value, extraKind)} to ${show(moved.at_1.value, extraKind)}`],
        isNumber ? ". " : `. One held-out row makes ${show(1 / study.about.n_test, extraKind)}. `,
        importance.note ? sentence(importance.note) : "",
      ],
      label: `Importance of columns, by their effect at ${end.words}. ${features
        .slice(0, 5)
        .map(
          (f) =>
            `${plain(f.name)}: ${reading(f.at_0, extraKind)} at fairness 0, ${reading(f.at_1, extraKind)} at fairness 1`,
        )
        .join("; ")}.`,
      table: small.length
        ? partedTable(caption, heads, [
            ["Largest effects", large.map(line)],
            ["Smaller effects", small.map(line)],
          ])
        : table(caption, heads, features.map(line)),
    };
  },
);
importanceChart.plot.after(unfold);
unfold.addEventListener("click", () => {
  unfolded = !unfolded;
  importanceChart.stale = state();
  renew([importanceChart]);
});

// The header, the slider, and what moves everything at once.

const { about, positions } = study;
const slider = byId("slider");
const attributeSelect = byId("attribute");
const classSelect = byId("class");
// What the dictionary says about the chosen attribute.
const attributeNote = element("p", { class: "about", id: "attribute-note" });
attributeSelect.closest(".choices").after(attributeNote);
attributeSelect.setAttribute("aria-describedby", attributeNote.id);
const PAPER = 620; // pixels that fit on A4 and letter
let current = 0;

// The favourable class; where the user has not named it, that it is a guess, and how to change it.
function favourableWords() {
  if (study.target.named) return name(outcomeText(0));
  return [
    name(outcomeText(0)),
    `. This is a guess (${study.target.reason}). To name another class, make the page again with --positive CLASS (in Python: pos_label).`,
  ];
}

function showHeader() {
  const trained = about.n_train ?? about.n_rows - about.n_test;
  fill(byId("title"), name(brief(about.data, 80)), ": predicting ", columnName(study.target.name));
  fill(
    byId("lead"),
    `A ${about.model_words} with a fairness slider. `,
    `All numbers are held-out: measured on ${many(about.n_test, "row")} that the model did not see, unless stated otherwise.`,
  );
  const facts = [
    [
      "Rows",
      `${count(about.n_rows)}: ${count(trained)} to train, ${count(about.n_test)} held out` +
        (about.n_weightless ? `, ${count(about.n_weightless)} of weight zero` : ""),
    ],
    [
      "Protected",
      study.attributes
        .filter((a) => a.kind !== "crossed")
        .map((a, j) => [j ? ", " : "", columnName(a.name), likely.has(a.name) ? " (probabilities)" : ""]),
    ],
    ...(study.strata.length
      ? [["Strata", study.strata.map((s, j) => [j ? ", " : "", name(brief(s, 60))])]]
      : []),
    ...(hasFavourable ? [["Favourable outcome", favourableWords()]] : []),
    ["Intervals", `${percent(about.level)}${about.weighted ? ", rows weighted" : ""}`],
    ["What fairness means here", sentence(about.criterion_words)],
  ];
  fill(
    byId("facts"),
    facts.map(([term, text]) => element("div", {}, element("dt", {}, term), element("dd", {}, text))),
  );
  const n = about.warnings.length;
  byId("caution").hidden = !n;
  if (n)
    fill(
      byId("caution"),
      `The fit gave ${many(n, "warning")}: `,
      element("a", { href: "#view-notes" }, "read before use"),
      ".",
    );
  fill(
    byId("colophon"),
    `Made by fairspan ${about.version}, seed ${about.seed}. This file is self-contained and loads nothing from a network.`,
  );
  fill(
    byId("terms"),
    isNumber
      ? `RMSE is the typical size of an error, in ${unitWords}; so are gaps between groups. `
      : [
          "Points are percentage points. Selection rate: the share of a group that is decided ",
          hasFavourable ? name(outcomeText(0)) : "to be of a class",
          ". ",
        ],
    positions[0].selected.some((number) => number.what === "correlation")
      ? `Dependence is a correlation${about.probable ? " of the raw score" : ""}: 0 is none, 1 is the most. `
      : "",
    `Each range is a ${percent(about.level)} confidence interval on its own. ${CHOSEN}`,
  );
  for (const one of document.querySelectorAll("main > section")) {
    if (!one.hidden)
      byId("contents").append(
        element("li", {}, element("a", { href: "#" + one.id }, one.querySelector("h2").textContent)),
      );
  }
}

// ------------------------------------------------------------------ the headline

// A model that decides alike for everyone has no gap, and is of no use: that must be seen at once.
function alike(i) {
  const chosen = positions[i].headline.alike;
  if (chosen === null || chosen === undefined) return "";
  return [
    element("strong", {}, " Everyone held out is decided alike: ", chosen ? "" : "not ", name(outcomeText(0)), "."),
  ];
}

function headlineParts(i) {
  const { headline } = positions[i];
  const extra = i > 0 && known(headline.error_extra?.value) ? extraWords(headline.error_extra) : "";
  const error = headline.error;
  // Narrow screens leave out what has the class "more".
  const more = (...parts) => element("span", { class: "more" }, parts);
  const aside = (e, kind) => (range(e, kind) ? more(` (${range(e, kind)})`) : null);
  const same = alike(i);
  const selected = ["; ", selectedParts(positions[i])];
  return [
    more(`At fairness ${fairnessText(i)}: `),
    `${errorName} `,
    value("error", error.value, show(error.value, errorKind)),
    aside(error, errorKind),
    extra ? more(", ", extra) : "",
    same ? more(selected) : selected,
    ".",
    same,
  ];
}

function showHeadline(i) {
  const line = byId("headline");
  fill(line, headlineParts(i));
  announce(line.textContent);
}

function tile(term, metric, e, kind, fine) {
  return element(
    "div",
    {},
    element("dt", {}, term),
    element("dd", { class: "big" }, value(metric, e?.value, show(e?.value, kind))),
    element("dd", { class: "fine" }, fine),
  );
}

// How often each group is selected. The attribute stays the same while the
// slider moves: that of the largest gap without fairness.
const MOST_LISTED = 5;
const ratesAttribute = positions[0].headline.gap_attribute;
const listsRates =
  hasFavourable && ratesAttribute && positions[0].rates?.[ratesAttribute]?.length <= MOST_LISTED;

function ratesTile(at) {
  if (!listsRates) return null;
  const line = (row) => {
    const [rate, between] = estimate("selection_rate", row.selection_rate, "rate");
    const words = row.few ? tooFew(row.n) : [element("strong", {}, rate), between];
    return element("dd", { class: "fine" }, name(brief(named(ratesAttribute, row.group), 24)), " ", words);
  };
  return element(
    "div",
    {},
    element("dt", {}, "Selection rates by ", columnName(ratesAttribute, 30)),
    at.rates[ratesAttribute].map(line),
  );
}

// Which errors: people who got the favourable class wrongly, and people who wrongly did not.
function wrongLines(at) {
  const now = at.headline.wrong;
  const before = positions[0].headline.wrong;
  if (!hasFavourable || !now || !before) return [];
  return ["", "not "].map((not, k) =>
    element(
      "dd",
      { class: "fine" },
      element("strong", {}, value("wrong", now[k], count(now[k]))),
      ` wrongly ${not}`,
      name(brief(outcomeText(0), 30)),
      now === before ? "" : ` (${count(before[k])} at fairness 0)`,
    ),
  );
}

function showTiles({ i, at }) {
  const { headline } = at;
  const { error, error_extra: extra, changed } = headline;
  const fine = (e, kind, text) => [range(e, kind), text].filter(Boolean).join(" · ");
  fill(
    byId("tiles"),
    add(tile(sentenceCase(errorName), "error", error, errorKind, fine(error, errorKind, "held-out")), wrongLines(at)),
    tile(
      `Extra ${errorName}`,
      "error_extra",
      extra,
      extraKind,
      i === 0 ? "other positions are compared with this model" : fine(extra, extraKind, "against fairness 0"),
    ),
    selectedTiles(at),
    ratesTile(at),
    known(changed)
      ? element(
          "div",
          {},
          element("dt", {}, "Decisions changed"),
          element("dd", { class: "big" }, value("changed", changed, count(changed))),
          element("dd", { class: "fine" }, `of ${count(about.n_test)} held-out rows, against fairness 0`),
        )
      : null,
  );
}

// The bar and the tiles take the room of their longest words at once: nothing moves while the slider does.
function reserve() {
  const at = (i) => ({ i, at: positions[i] });
  for (const [node, show] of [
    [byId("headline"), (i) => fill(byId("headline"), headlineParts(i))],
    [byId("tiles"), (i) => guarded(byId("glance"), () => showTiles(at(i)))],
  ]) {
    positions.forEach((_, i) => {
      show(i);
      hold(node);
    });
    show(current);
  }
}

// ------------------------------------------------------------------ moving

const state = () => ({
  i: current,
  at: positions[current],
  attribute: attributeSelect.value,
  metric: metricSelect.value,
  classIndex: Math.max(classSelect.selectedIndex, 0),
});

function update() {
  const now = state();
  showHeadline(now.i);
  fill(attributeNote, descriptionOf(now.attribute).words);
  const isLikely = likely.has(now.attribute);
  byId("crossed").hidden = isLikely || Boolean(now.at.scores[now.attribute]);
  byId("likely").hidden = !isLikely;
  if (isLikely)
    fill(
      byId("likely"),
      "The groups of ",
      columnName(now.attribute),
      ` are known as probabilities, and these rows are worth ${many(Math.round(likely.get(now.attribute).n_equivalent), "row")} with a known group. `,
      isNumber
        ? "Means are estimated from them. Distributions of predictions and calibration need the group of each person, so they are not shown."
        : "Rates are estimated from them. Distributions of scores, calibration, and counts of right and wrong decisions need the group of each person, so they are not shown.",
    );
  for (const [view, show] of [
    ["verdict", showVerdicts],
    ["glance", showTiles],
    ["view-changed", showChanged],
    ["view-confusion", showConfusion],
    ["view-certificate", showCertificate],
    ["view-snippet", showSnippet],
  ])
    guarded(byId(view), () => show(now));
  for (const node of [certificateBody, changedBody]) hold(node);
  showWhere(now.i);
  drawAll(now);
}

let asked = 0;
function soon() {
  asked ||= requestAnimationFrame(() => {
    asked = 0;
    update();
  });
}

function place(i) {
  const last = positions.length - 1;
  const words =
    i === 0 ? "accuracy first" : i === last ? "fairness first" : "between accuracy first and fairness first";
  current = i;
  slider.value = i;
  slider.setAttribute("aria-valuetext", `${fairnessText(i)}, ${words}`);
  fill(byId("place"), fairnessText(i)).setAttribute("data-value", study.fairness[i]);
  byId("place").setAttribute("data-words", `, ${words}`);
  // Not `disabled`, which would throw away the focus of a keyboard at the end of its way.
  byId("less").setAttribute("aria-disabled", i === 0);
  byId("more").setAttribute("aria-disabled", i === last);
}

function go(i, keep = true) {
  const to = Math.min(Math.max(Math.round(i) || 0, 0), positions.length - 1);
  place(to);
  if (keep) keepHash();
  soon();
}

function keepHash() {
  try {
    const side = equalize === sides[0] ? "" : `&equalize=${equalize}`;
    history.replaceState(null, "", `#fairness=${study.fairness[current]}${side}`);
  } catch {
    // Some frames forbid it; the slider works all the same.
  }
}

function fromHash() {
  const found = HASH.exec(location.hash);
  if (!found) return null;
  const wanted = Number(found[1]);
  const far = study.fairness.map((f) => Math.abs(f - wanted));
  return far.indexOf(Math.min(...far));
}

function start() {
  slider.max = positions.length - 1;
  choices(
    attributeSelect,
    study.attributes.map((a) => [a.name, a.name]),
  );
  if (study.task === "multiclass" && !hasFavourable) {
    choices(
      classSelect,
      (study.target.classes ?? []).map((c, k) => [k, c]),
    );
    byId("class-choice").hidden = false;
    fill(byId("class-note"), `Distribution and calibration are of the ${scoreWords}, whichever class is chosen.`);
    byId("class-note").hidden = false;
  }
  guarded(byId("view-audit"), showAudit);
  guarded(byId("data"), showRecord);
  guarded(byId("verdict"), showOrigin);
  showSwitch();
  guarded(byId("setting"), showSetting);
  showHeader();
  slider.addEventListener("input", () => go(Number(slider.value)));
  byId("less").addEventListener("click", () => go(current - 1));
  byId("more").addEventListener("click", () => go(current + 1));
  for (const one of [attributeSelect, classSelect, metricSelect]) one.addEventListener("change", soon);
  addEventListener("hashchange", () => {
    const i = fromHash();
    const side = HASH.exec(location.hash)?.[2] ?? sides[0];
    if (i !== null && side !== equalize && sides.includes(side)) {
      startAgain(side, false);
      return;
    }
    if (i !== null && i !== current) go(i, false);
  });
  const fit = (width) => {
    fitCharts(state(), width);
    reserve();
    hold(certificateBody);
  };
  addEventListener("beforeprint", () => fit(PAPER));
  addEventListener("afterprint", () => fit(null));
  night.addEventListener("change", update, { signal: stopped.signal });
  if (carried && study.attributes.some((a) => a.name === carried.attribute)) attributeSelect.value = carried.attribute;
  place(carried?.i ?? fromHash() ?? study.start);
  reserve();
  update();
  if (known(carried?.i)) keepHash(); // the switch was used
  const bar = byId("bar");
  let wide = byId("main").clientWidth; // its height changes with every move
  const resized = new ResizeObserver(() => {
    if (wide !== byId("main").clientWidth) fit(paper);
    wide = byId("main").clientWidth;
  });
  resized.observe(byId("main"));
  const barSize = new ResizeObserver(() =>
    document.documentElement.style.setProperty("--bar", `${bar.offsetHeight}px`),
  );
  barSize.observe(bar);
  stopped.signal.addEventListener("abort", () => [resized, barSize].forEach((one) => one.disconnect()));
}

start();
window.fairspan = { study, equalize, show: (i) => go(i), current: () => current };

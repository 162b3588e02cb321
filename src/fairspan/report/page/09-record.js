// What is kept on record: code, audit, data, notes.

const code = element("code", {});
const copied = element("span", { role: "status" });
const copy = element("button", { type: "button", id: "copy" }, "Copy the code");
byId("view-snippet").append(
  element("p", { class: "about" }, "This code trains exactly the model at the current position of the slider."),
  element("div", { class: "copy" }, copy, copied),
  element("pre", { tabindex: "0", role: "region", "aria-label": "Python code" }, code),
);

function showSnippet({ at }) {
  fill(code, at.snippet ?? "");
  fill(copied);
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Not allowed here (an old browser, a frame): select the text, as a hand would.
    getSelection().selectAllChildren(code);
    return document.execCommand("copy");
  }
}

copy.addEventListener("click", async () => {
  const done = await copyText(code.textContent);
  fill(copied, done ? "Copied." : "Not allowed by the browser: the code is selected, press Ctrl+C.");
});

// ------------------------------------------------------------------ audit

const { audit } = study;

function auditTable(section) {
  const lines = audit.lines.filter((line) => !section || line.section === section);
  const tested = lines.some((line) => known(line.p_adjusted));
  const p = (x) => ({ text: known(x) ? decimals(x, 3) : "", value: x, class: "right" });
  return table(
    `${many(lines.length, "finding")} of the audit of the held-out rows, at fairness ${placeText(audit.at)}`,
    [
      "Measure",
      "Section",
      "Of",
      right("Value (interval)"),
      ...(tested ? [right("p, adjusted")] : []),
      "Note",
    ],
    lines.map((line) => [
      words(line.metric),
      line.section,
      wordy([
        line.attribute ? columnName(line.attribute, 60, true) : "",
        [line.group, line.where].filter(Boolean).map((part) => ` · ${part}`),
      ]),
      spread(line, kindOf(line.metric)),
      ...(tested ? [p(line.p_adjusted)] : []),
      wordy(line.note ?? ""),
    ]),
  );
}

const auditWords = (line) =>
  line
    .replace(/^! /, "")
    .replace(/^skipped, ([^:]*):/, "Skipped ($1):")
    .replace(/\[(-?[\d.]+), (-?[\d.]+)\]/g, "($1 to $2)");

// The audit's own text marks what a reader must not miss with "!"; the rest is in the table.
function auditSummary() {
  const marked = (audit.summary ?? "")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => /^(! |skipped)/.test(line));
  if (!marked.length) return "";
  return [
    element("h4", {}, "What stands out"),
    element(
      "ul",
      { class: "plain" },
      marked.map((line) => element("li", {}, sentence(auditWords(line)))),
    ),
  ];
}

function showAudit() {
  if (!audit) {
    byId("audit").hidden = true;
    return;
  }
  const sections = [...new Set(audit.lines.map((line) => line.section))];
  const select = element("select", { id: "section" });
  choices(select, [["", "all sections"], ...sections.map((s) => [s, s])]);
  const body = element("div", {
    class: "scroll tall",
    role: "region",
    tabindex: "0",
    "aria-label": "Findings of the audit",
  });
  const update = () => fill(body, auditTable(select.value));
  select.addEventListener("change", update);
  byId("view-audit").classList.add("long");
  add(
    byId("view-audit"),
    element(
      "p",
      { class: "about" },
      `An audit of the model at fairness ${placeText(audit.at)}; it does not move with the slider.`,
    ),
    auditSummary(),
    element("div", { class: "choice" }, element("label", { for: "section" }, "Section"), select),
    body,
  );
  update();
}

// ------------------------------------------------------------------ data and notes

function showRecord() {
  const { about, columns } = study;
  const list = (items) =>
    element(
      "ul",
      { class: "plain" },
      items.map((text) => element("li", {}, sentence(text))),
    );
  add(
    byId("view-notes"),
    element(
      "p",
      { class: "say" },
      `Numbers are held-out: measured on ${many(about.n_test, "row")} that the model did not see. Each interval has ${percent(about.level)} confidence on its own, if new rows are like these. ${CHOSEN}`,
    ),
    about.warnings.length
      ? element(
          "div",
          { class: "caution", id: "warnings" },
          element("strong", {}, about.warnings.length === 1 ? "A warning of the fit" : "Warnings of the fit"),
          list(about.warnings),
        )
      : "",
    about.notes.length ? list(about.notes) : "",
    about.command ? element("p", { class: "say" }, "Made by ", element("code", {}, about.command)) : "",
  );
  const described = columns.some((c) => c.description);
  byId("view-columns").classList.add("long");
  byId("view-columns").append(
    element(
      "div",
      { class: "scroll tall", role: "region", tabindex: "0", "aria-label": "How the columns were read" },
      table(
        "Columns of the data as they were read",
        ["Column", ...(described ? ["Description"] : []), "Role", "Kind", right("Missing"), right("Levels"), "Note"],
        columns.map((c, j) => [
          element("span", { id: `column-${j}` }, name(c.column && c.column !== c.name ? `${c.name} (${c.column})` : c.name)),
          ...(described ? [wordy(c.description ?? "")] : []),
          c.role,
          c.kind,
          whole(c.missing),
          known(c.levels) ? whole(c.levels) : "",
          wordy(c.note ?? ""),
        ]),
      ),
    ),
  );
  byId("view-columns").hidden = !columns.length;
}

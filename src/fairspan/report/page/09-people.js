// What fairness changed in the scores of single held-out rows, by row number; only where it was asked for.

// One line per row: its number, scores, change, the part of each attribute, rescaling.
function peopleLines(people, output) {
  return people.rows.map((row, i) => {
    const before = output.before[i],
      after = output.after[i];
    return [row, before, after, before - after, ...output.parts.map((part) => part[i]), output.rescaling[i]];
  });
}

// Size counts: the largest changes come first, whatever their sign; row numbers rise.
function peopleSorted(lines, column, rising) {
  const size = (line) => (column === 0 ? line[0] : rising ? line[column] : Math.abs(line[column]));
  return [...lines].sort((a, b) => (rising ? size(a) - size(b) : size(b) - size(a)) || a[0] - b[0]);
}

function showPeople() {
  const { people } = study;
  byId("people").hidden = !people;
  if (!people) return;
  const heads = ["Row", "Before", "After", "Change", ...people.names.map((n) => `Part of ${n}`), "Rescaling"];
  const view = byId("view-people");
  view.classList.add("long");
  const select = element("select", { id: "people-class" });
  const body = element("div", { class: "scroll tall", role: "region", tabindex: "0", "aria-label": "Scores of single rows" });
  let by = 3,
    rising = false;
  const several = people.outputs.length > 1;
  const shown = people.rows.length;
  const title =
    shown < people.n_rows
      ? `The ${count(shown)} of ${many(people.n_rows, "held-out row")} whose score changed most`
      : `All ${many(shown, "held-out row")}, by number in the table`;
  // All numbers have the decimals that show four digits of the largest one, so that sums can be checked.
  const largest = Math.max(...people.outputs.flatMap((o) => [...o.before, ...o.after]).map(Math.abs), 0);
  const places = Math.min(Math.max(3 - Math.floor(Math.log10(largest || 1)), 0), 9);
  const score = (x) => ({ text: decimals(x, places), value: x, class: "right" });
  const update = () => {
    const output = people.outputs[Math.max(select.selectedIndex, 0)];
    const lines = peopleSorted(peopleLines(people, output), by, rising);
    fill(
      body,
      table(
        title,
        heads.map((head, j) => ({ text: brief(head, 40), class: j ? "right" : "" })),
        lines.map(([row, ...numbers]) => [String(row), ...numbers.map(score)]),
      ),
    );
    body.querySelectorAll("thead th").forEach((cell, j) => {
      if (j === by) cell.setAttribute("aria-sort", rising || j === 0 ? "ascending" : "descending");
      const button = element("button", { type: "button", class: "sort" }, cell.textContent);
      button.addEventListener("click", () => {
        // Of a column of numbers: the largest sizes, then from the lowest to the highest.
        rising = j === 0 || (j === by && !rising);
        by = j;
        update();
        body.querySelectorAll("thead button")[j].focus();
      });
      cell.replaceChildren(button);
    });
  };
  if (several) {
    choices(
      select,
      people.outputs.map((output, k) => [k, output.class]),
    );
    select.addEventListener("change", update);
  }
  const start = `fairness ${placeText(people.fairness)}`;
  const unit = isNumber
    ? `a prediction, in ${unitWords}`
    : several
      ? `a ${people.scale} of the class; the class with the largest one is decided`
      : [`a ${people.scale}: above 0, the decision is "`, name(brief(people.outputs[0].class, 40)), '"'];
  add(
    view,
    element(
      "p",
      { class: "about" },
      "Each score is ",
      unit,
      `. Before: without fairness. After: at ${start}, where the slider began; this table does not move with it. `,
      "The change is before minus after, and the sum of the parts and the rescaling.",
    ),
    element(
      "p",
      { class: "about" },
      "The part of an attribute is what the model subtracts because the columns of a row predict the attribute; the attribute itself is not read. ",
      "It is 0 for everybody if nothing is subtracted for the attribute. It is not the effect of the attribute on the outcome, and not the reason for a decision. ",
      "Rescaling is what the rest of the score loses or gains because it is fitted again. Numbers about one person are personal data.",
    ),
    several
      ? element("div", { class: "choice" }, element("label", { for: "people-class" }, "Class"), select)
      : "",
    body,
  );
  update();
}

guarded(byId("people"), showPeople);

"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const rows = data.positives + data.negatives;
  const slider = document.getElementById("threshold"), price = document.getElementById("price");
  const show = (id, text) => { document.getElementById(id).textContent = text; };
  const ratio = (a, b) => (b === 0 ? NaN : a / b);

  function showRates(tp, fp) {
    const fn = data.positives - tp, tn = data.negatives - fp;
    show("tp", tp); show("fp", fp); show("fn", fn); show("tn", tn);
    const recall = ratio(tp, tp + fn), specificity = ratio(tn, tn + fp);
    const rates = {
      "precision": ratio(tp, tp + fp), "recall": recall, "specificity": specificity,
      "false positive rate": ratio(fp, fp + tn), "F1": ratio(2 * tp, 2 * tp + fp + fn),
      "IoU": ratio(tp, tp + fp + fn), "accuracy": ratio(tp + tn, tp + fp + fn + tn),
      "balanced accuracy": (recall + specificity) / 2
    };
    for (const cell of document.querySelectorAll("[data-rate]")) {
      const value = rates[cell.dataset.rate];
      cell.textContent = Number.isNaN(value) ? "–" : value.toFixed(4);
    }
  }

  /* The black points on the curves. Precision of no decision at all is 1, as on the curve. */
  function movePoints(tp, fp) {
    const recall = ratio(tp, data.positives), decided = tp + fp;
    const points = {
      roc: [ratio(fp, data.negatives), recall],
      pr: [recall, decided === 0 ? 1 : tp / decided],
      gain: [decided / rows, recall]
    };
    for (const [name, [x, y]] of Object.entries(points)) {
      const mark = document.querySelector("#" + name + "-point use");
      if (mark === null) { continue; }
      const [x0, y0, x1, y1] = mark.closest("svg").dataset.frame.split(" ").map(Number);
      mark.setAttribute("x", x0 + x * (x1 - x0));
      mark.setAttribute("y", y0 + y * (y1 - y0));
    }
  }

  /* Cost of 1,000 rows in the price of one false alarm. */
  const miss = () => Math.pow(10, Number(price.value) / 10);
  const cost = (tp, fp) => 1000 * (fp + miss() * (data.positives - tp)) / rows;

  function cheapest() {
    let best = 0;
    data.steps.forEach(([, tp, fp], place) => {
      const [, a, b] = data.steps[best];
      if (cost(tp, fp) < cost(a, b)) { best = place; }
    });
    return best;
  }

  function update() {
    const [threshold, tp, fp] = data.steps[Number(slider.value)];
    show("threshold-value", threshold.toPrecision(6));
    const chance = document.getElementById("threshold-probability");
    if (chance !== null) { chance.textContent = (1 / (1 + Math.exp(-threshold))).toFixed(3); }
    showRates(tp, fp);
    movePoints(tp, fp);
    const [at, a, b] = data.steps[cheapest()];
    show("price-value", String(Number(miss().toPrecision(2))));
    show("cheapest-value", at.toPrecision(6));
    show("cost-here", cost(tp, fp).toFixed(1));
    show("cost-least", cost(a, b).toFixed(1));
    show("cost-all", cost(data.positives, data.negatives).toFixed(1));
    show("cost-none", cost(0, 0).toFixed(1));
  }

  slider.addEventListener("input", update);
  price.addEventListener("input", update);
  document.getElementById("reset").addEventListener("click", () => { slider.value = data.start; update(); });
  document.getElementById("cheapest").addEventListener("click", () => { slider.value = cheapest(); update(); });
  update();
})();

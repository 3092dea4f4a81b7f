/* The search's scores: sphinx's own, with logs, tables of numbers and the reference behind the pages that explain. */
var Scorer = {
  score: ([page, , , , score]) =>
    score - (/^(api\/|benchmarks|evidence|changelog|contributing|papers|reproduce|design|release)/.test(page) ? 12 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

"use strict";
document.addEventListener("DOMContentLoaded", () => {
  /* Long pages of tables begin with one screen: sections behind the first picture are folded, and open when linked to. */
  if (document.querySelector("section#evidence, section#benchmarks")) {
    const first = document.querySelector("article img");
    for (const section of document.querySelectorAll("article section section")) {
      const heading = section.querySelector(":scope > h2, :scope > h3");
      if (heading === null || section.contains(first) || section.closest("details")) { continue; }
      const fold = document.createElement("details"), head = document.createElement("summary");
      fold.className = head.className = "fold";
      head.append(heading);
      fold.append(head, ...section.childNodes);
      section.append(fold);
    }
    const open = () => {
      const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
      if (!target) { return; }
      const inside = target.querySelector(":scope > details");
      for (let fold = inside ?? target.closest("details"); fold; fold = fold.parentElement.closest("details")) { fold.open = true; }
      target.scrollIntoView();
    };
    window.addEventListener("hashchange", open);
    open();
  }
  /* What scrolls can be reached by the keyboard, and every landmark has a name. */
  for (const box of document.querySelectorAll(".table-wrapper, .highlight pre")) {
    if (box.scrollWidth > box.clientWidth) { box.tabIndex = 0; }
  }
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Pages");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
});

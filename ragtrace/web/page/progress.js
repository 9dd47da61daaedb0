"use strict";
// Looks again after 2 seconds, then ever more rarely, up to every 30, and only while somebody sees it; without scripts the
// page's link does. How long it waited is kept for the tab: the page is loaded anew each time.
(() => {
  const key = `waited ${location.pathname}`;
  const isAgain = performance.getEntriesByType("navigation")[0].type === "reload";
  const seconds = isAgain ? Math.min(30, 1.5 * Number(sessionStorage.getItem(key) || 2)) : 2;
  const look = () => {
    if (document.hidden) return;
    sessionStorage.setItem(key, String(seconds));
    location.reload();
  };
  setTimeout(() => {
    look();
    document.addEventListener("visibilitychange", look);
  }, 1000 * seconds);
})();

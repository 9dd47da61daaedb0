"use strict";
// Looks again; without scripts the page's link does.
setTimeout(() => location.reload(), 2000);

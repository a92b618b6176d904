// The stretch of time that all charts show, and what moves it: d3's zoom on each chart, buttons and keys.

class TimeView {
  constructor(end) {
    this.listeners = [];
    this.charts = new Set();
    this.reset(end);
  }
  reset(end) {
    this.end = end > 0 ? end : 1e-9;
    this.first = 0;
    this.last = this.end;
  }
  get span() { return this.last - this.first; }

  show(first, last, source) {
    const shortest = Math.max(this.end * 1e-9, 1e-9);
    let span = Math.min(Math.max(last - first, shortest), this.end);
    let from = (first + last - span) / 2;
    from = Math.min(Math.max(from, 0), this.end - span);
    this.first = from;
    this.last = from + span;
    for (const chart of this.charts) if (chart !== source) chart.followView();
    for (const listener of this.listeners) listener();
  }
  zoom(factor, around = (this.first + this.last) / 2) {
    const span = this.span / factor, part = (around - this.first) / this.span;
    this.show(around - part * span, around + (1 - part) * span);
  }
  showAll() { this.show(0, this.end); }
  // Moves no more than it must so that `time` is seen.
  reveal(time) {
    if (time >= this.first && time <= this.last) return;
    this.show(time - this.span / 2, time + this.span / 2);
  }
}

// A canvas with axes over it, a second canvas for what is pointed at, and the ways to move.
class Chart {
  constructor(view, label, keys) {
    this.view = view;
    this.leftEms = 4.6;
    this.plot = make("div", { class: "plot", tabindex: "0", role: "application", "aria-roledescription": "chart", "aria-label": label, "aria-keyshortcuts": keys });
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.marks = make("canvas", { "aria-hidden": "true", class: "marks" });
    this.svg = d3.select(this.plot).append("svg").attr("aria-hidden", "true");
    this.plot.prepend(this.canvas, this.marks);
    this.xAxis = this.svg.append("g").attr("class", "axis x");
    this.yAxis = this.svg.append("g").attr("class", "axis y");
    view.charts.add(this);
    this.zoom = d3.zoom().on("zoom", () => this.zoomed());
    this.zoom.filter(() => {
      const event = d3.event;
      if (event.type === "wheel") return event.ctrlKey || event.metaKey;
      if (event.touches) return event.touches.length > 1 || this.view.span < this.view.end;
      return !event.button;
    });
    d3.select(this.plot).call(this.zoom);
    this.plot.addEventListener("mousemove", (event) => this.pointed(event));
    this.plot.addEventListener("mouseleave", () => this.release());
    this.plot.addEventListener("click", (event) => this.pointed(event));
    this.plot.addEventListener("blur", () => this.release());
    this.plot.addEventListener("keydown", (event) => this.keyed(event));
  }

  get plotWidth() { return this.width - this.left - this.right; }
  get plotHeight() { return this.height - this.top - this.bottom; }

  resize() {
    const em = parseFloat(getComputedStyle(this.plot).fontSize);
    this.em = em;
    this.ratio = window.devicePixelRatio || 1;
    this.width = this.plot.clientWidth;
    // The plot begins and ends with whole pixels, so that a column of pixels is a stretch of time.
    this.left = Math.round(this.leftEms * em * this.ratio) / this.ratio;
    this.right = this.width - this.left - Math.floor((this.width - this.left - em) * this.ratio) / this.ratio;
    this.top = 0.4 * em;
    this.bottom = 1.9 * em;
    this.height = this.heightFor(em);
    this.plot.style.height = this.height + "px";
    for (const canvas of [this.canvas, this.marks]) {
      canvas.width = Math.round(this.width * this.ratio);
      canvas.height = Math.round(this.height * this.ratio);
    }
    this.svg.attr("width", this.width).attr("height", this.height);
    const extent = [[this.left, 0], [this.left + this.plotWidth, this.height]];
    this.zoom.extent(extent).translateExtent(extent).scaleExtent([1, 1e9]);
    this.followView();
  }

  x(time) { return this.left + ((time - this.view.first) / this.view.span) * this.plotWidth; }
  timeAt(x) { return this.view.first + ((x - this.left) / this.plotWidth) * this.view.span; }

  // The zoom behaviour is told what something else has made of the view.
  followView() {
    if (!this.width) return;
    const scale = this.view.end / this.view.span;
    const shift = this.left - scale * ((this.view.first / this.view.end) * this.plotWidth + this.left);
    this.plot.__zoom = d3.zoomIdentity.translate(shift, 0).scale(scale);
    this.schedule();
  }
  zoomed() {
    const transform = this.plot.__zoom;
    const first = ((this.left - transform.x) / transform.k - this.left) / this.plotWidth * this.view.end;
    this.view.show(first, first + this.view.end / transform.k, this);
    this.schedule();
  }
  schedule() {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => {
      this.isScheduled = false;
      if (!this.plot.isConnected) return;
      this.draw();
      this.drawMarks();
    });
  }

  drawTimeAxis() {
    const span = this.view.span, unit = timeUnit(Math.max(this.view.last, span) / 2);
    const scale = d3.scaleLinear().domain([this.view.first / unit.seconds, this.view.last / unit.seconds]).range([this.left, this.left + this.plotWidth]);
    const count = Math.max(2, Math.floor(this.plotWidth / (6.5 * this.em)));
    const ticks = scale.ticks(count);
    const digits = ticks.length > 1 ? Math.max(0, -Math.floor(Math.log10(ticks[1] - ticks[0]) + 1e-9)) : 0;
    this.xAxis.attr("transform", "translate(0," + (this.top + this.plotHeight) + ")")
      .call(d3.axisBottom(scale).tickValues(ticks).tickFormat((value) => value.toFixed(digits) + " " + unit.name).tickSizeOuter(0));
  }

  context(canvas) {
    const context = canvas.getContext("2d");
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    return context;
  }
  colour(name) { return getComputedStyle(this.plot).getPropertyValue("--" + name).trim(); }

  pointed(event) {
    const box = this.plot.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    if (x < this.left || x > this.left + this.plotWidth || event.buttons > 0) return this.release();
    this.pointAt(x, y, event.clientX, event.clientY);
  }
  // What is chosen is told in the tip, and by keys also read out.
  tell(title, facts, clientX, clientY, aloud) {
    showTip(title, facts, clientX, clientY);
    if (aloud) byId("said").textContent = title + "; " + facts.map(([name, value]) => name + " " + value).join("; ");
  }
  release() {
    this.chosen = this.marked = null;
    hideTip();
    if (this.width) this.drawMarks();
  }

  keyed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const around = this.cursor === undefined ? undefined : Math.min(Math.max(this.cursor, this.view.first), this.view.last);
    const keys = {
      "+": () => this.view.zoom(2, around), "=": () => this.view.zoom(2, around), "-": () => this.view.zoom(0.5, around),
      "0": () => this.view.showAll(), Escape: () => this.release(),
      PageDown: () => this.jump(this.view.span / 10), PageUp: () => this.jump(-this.view.span / 10),
      Home: () => this.goTo(this.view.first), End: () => this.goTo(this.view.last),
      ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), ArrowUp: () => this.climb(1), ArrowDown: () => this.climb(-1),
      Enter: () => this.zoomToChosen(), p: () => this.goToPeak(), P: () => this.goToPeak()
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }
  jump(seconds) { this.goTo(Math.min(Math.max((this.cursor || this.view.first) + seconds, 0), this.view.end)); }
  goToPeak() {}
}

function showTip(title, facts, clientX, clientY) {
  const tip = byId("tip");
  fill(tip, make("strong", {}, title), make("dl", {}, facts.map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])));
  tip.hidden = false;
  if (innerWidth < 700) {
    tip.style.left = tip.style.top = "";
    return;
  }
  const box = tip.getBoundingClientRect(), gap = 16;
  const left = clientX + gap + box.width > innerWidth ? clientX - gap - box.width : clientX + gap;
  const top = clientY + gap + box.height > innerHeight ? clientY - gap - box.height : clientY + gap;
  tip.style.left = Math.max(4, left) + "px";
  tip.style.top = Math.max(4, top) + "px";
}
const hideTip = () => { byId("tip").hidden = true; };

// The buttons over charts.
function zoomBar(bar, view) {
  const button = (text, label, action) => {
    const element = make("button", { type: "button", "aria-label": label, title: label }, text);
    element.addEventListener("click", action);
    return element;
  };
  const range = make("output", { class: "range" });
  view.listeners.push(() => {
    range.textContent = view.span < view.end ? timeText(view.first) + " to " + timeText(view.last) + " of " + timeText(view.end) : "the whole step, " + timeText(view.end);
  });
  return fill(bar, button("−", "Zoom out", () => view.zoom(0.5)), button("+", "Zoom in", () => view.zoom(2)),
    button("←", "Earlier", () => view.show(view.first - view.span / 2, view.last - view.span / 2)),
    button("→", "Later", () => view.show(view.first + view.span / 2, view.last + view.span / 2)),
    button("Whole step", "Show the whole step", () => view.showAll()), range);
}

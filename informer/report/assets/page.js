"use strict";
(() => {
const report = JSON.parse(document.getElementById("report-data").textContent);
const $ = (id) => document.getElementById(id);
const narrow = () => window.innerWidth < 720;
const START = "without the network";

// plotly reads <b> and &amp; in its labels: names are text
const plain = (name) => String(name).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const short = (name, most = 22) => (String(name).length > most ? String(name).slice(0, most - 1) + "…" : String(name));
const digits = (value, n = 4) => (value === null || value === undefined ? "–" : Number(value.toPrecision(n)).toLocaleString("en", { maximumFractionDigits: 20 }));
const percent = (value) => (value === null ? "–" : (value >= 0 ? "+" : "−") + Math.abs(100 * value).toFixed(1) + " %");

// equal steps come as the first time, the step in seconds and their number
const grids = new Map();
function rowsOf(track) {
  const grid = report.times[track.times];
  if (Array.isArray(grid)) return grid;
  if (!grids.has(track.times)) {
    const start = Date.parse(grid.first.replace(" ", "T") + (grid.first.length > 10 ? "Z" : "")), length = grid.first.length;
    const write = (i) => new Date(start + 1000 * grid.step * i).toISOString().replace("T", " ").slice(0, length);
    grids.set(track.times, Array.from({ length: grid.n }, (_, i) => write(i)));
  }
  return grids.get(track.times);
}
function colours() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue("--" + name).trim();
}
function faded(colour, alpha) {
  const n = parseInt(colour.slice(1), 16);
  return `rgba(${n >> 16},${(n >> 8) & 255},${n & 255},${alpha})`;
}

// the model first, then baselines in their order; colour and dash both tell them apart
const known = [];
function look(name) {
  if (name === report.model) return { colour: "model", dash: "solid", width: 2.4 };
  if (name === START) return { colour: "third", dash: "dashdot", width: 1.6 };
  if (!known.includes(name)) known.push(name);
  const place = known.indexOf(name);
  return { colour: ["first", "second", "fourth", "soft", "third", "good", "bad"][place % 7], dash: ["dot", "dash", "longdash", "longdashdot"][place % 4], width: 1.6 };
}
for (const profile of report.profiles) Object.keys(profile.mse).forEach(look);
for (const track of report.tracks) track.origins.slice(0, 1).forEach((origin) => Object.keys(origin.lines).forEach(look));

function layout(c, more) {
  const axis = {
    gridcolor: c("grid"), linecolor: c("line"), zerolinecolor: c("line"), tickcolor: c("line"), automargin: true,
    tickfont: { color: c("soft") }, title: { font: { color: c("soft"), size: 12 }, standoff: 8 }, fixedrange: true,
    minexponent: 6, separatethousands: true, // 0.0008 and 20,000 instead of 800µ and 20k
  };
  const base = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: c("text") },
    margin: { l: 48, r: 12, t: 8, b: 40 }, showlegend: true, dragmode: false, hovermode: "x unified",
    hoverlabel: { bgcolor: c("panel"), bordercolor: c("line"), font: { color: c("text") } },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: c("text") }, traceorder: "normal" },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: c("soft"), activecolor: c("model") },
    xaxis: { ...axis }, yaxis: { ...axis, rangemode: "tozero" },
  };
  for (const [key, value] of Object.entries(more)) {
    base[key] = value && typeof value === "object" && !Array.isArray(value) ? { ...base[key], ...value } : value;
  }
  for (const name of ["xaxis", "yaxis"]) {
    if (typeof base[name].title === "string") base[name].title = { ...axis.title, text: base[name].title };
  }
  return base;
}
const config = { displayModeBar: false, displaylogo: false, responsive: true };
const draw = (id, traces, look) => Plotly.react($(id), traces, look, config);

// ---------------------------------------------------------------- forecasts
const state = { track: 0, origin: 0 };
const chosen = new Map(); // visibility of each line by its name: not every origin has every line
const unique = (values) => [...new Set(values)];

function ordered(tracks, key) {
  const by = $("order").value;
  const worst = new Map();
  for (const track of tracks) worst.set(track[key], Math.max(worst.get(track[key]) ?? -Infinity, track.mse ?? -Infinity));
  const names = unique(tracks.map((track) => track[key]));
  if (by === "name") return names.sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
  return names.sort((a, b) => (by === "worst" ? worst.get(b) - worst.get(a) : worst.get(a) - worst.get(b)));
}
function fill(select, names, chosen) {
  select.replaceChildren(...names.map((name) => {
    const option = document.createElement("option");
    option.value = name;
    option.textContent = short(name, 60);
    option.selected = name === chosen;
    return option;
  }));
}
function fillSeries(chosen) { fill($("series"), ordered(report.tracks, "series"), chosen); }
function fillColumns(chosen) {
  const own = report.tracks.filter((track) => track.series === $("series").value);
  const names = ordered(own, "column");
  fill($("column"), names, names.includes(chosen) ? chosen : names[0]);
}
function pick() {
  const { value: series } = $("series"), { value: column } = $("column");
  state.track = report.tracks.findIndex((track) => track.series === series && track.column === column);
  const n = report.tracks[state.track].origins.length;
  $("origin").max = n - 1;
  state.origin = Math.min(state.origin, n - 1);
  $("origin").value = state.origin;
  drawTrack();
}
function timesOf(track, origin) {
  const rows = rowsOf(track);
  const steps = Object.values(origin.lines)[0].length;
  return [...rows.slice(origin.row, origin.row + steps - origin.times.length), ...origin.times];
}
function bands(track, origin, times, c) {
  const names = Object.keys(origin.bands);
  return names.flatMap((name, place) => {
    const [low, high] = origin.bands[name];
    const common = { x: times, mode: "lines", line: { width: 0 }, legendgroup: name, hovertemplate: "%{y:.5~g}" };
    const tint = faded(c("model"), 0.14 + 0.12 * place);
    return [
      { ...common, y: high, name: name + " upper end", showlegend: false },
      { ...common, y: low, name: name + " interval", fill: "tonexty", fillcolor: tint },
    ];
  });
}
function drawTrack() {
  const track = report.tracks[state.track], origin = track.origins[state.origin], c = colours();
  const rows = rowsOf(track), times = timesOf(track, origin);
  const known = unique([report.model, ...Object.keys(origin.lines)]).filter((name) => name in origin.lines);
  const lines = known.map((name) => {
    const { colour, dash, width } = look(name);
    const one = times.length === 1;
    return {
      x: times, y: origin.lines[name], name: name === report.model ? "forecast" : plain(name), mode: one ? "lines+markers" : "lines", hovertemplate: "%{y:.5~g}",
      line: { color: c(colour), dash, width }, visible: name === report.model ? true : "legendonly",
    };
  }).reverse();
  const actual = {
    x: rows.slice(0, track.actual.length), y: track.actual, name: "actual", mode: "lines", hovertemplate: "%{y:.5~g}",
    line: { color: c("text"), width: 1.4 },
  };
  const steps = times.length, before = Math.max(2 * steps, 48);
  const first = rows[Math.max(0, origin.row - before)] ?? times[0];
  const range = $("extent").value === "all" ? [rows[0] ?? times[0], [rows[rows.length - 1] ?? "", times[steps - 1]].sort()[1]] : [first, times[steps - 1]];
  const last = rows[origin.row - 1];
  const touch = matchMedia("(pointer: coarse)").matches;
  const figure = layout(c, {
    dragmode: touch ? false : "zoom", margin: { l: 56, r: 12, t: 34, b: 40 },
    legend: { y: -0.13, yanchor: "top", traceorder: "reversed" },
    xaxis: { type: "date", range, fixedrange: false, uirevision: JSON.stringify([state.track, state.origin, $("extent").value]) },
    yaxis: { fixedrange: false, rangemode: "normal", title: plain(short(track.column, 40)), uirevision: JSON.stringify([state.track, state.origin, $("extent").value]) },
    shapes: last ? [{ type: "line", x0: last, x1: last, y0: 0, y1: 1, yref: "paper", line: { color: c("soft"), width: 1, dash: "dot" } }] : [],
  });
  if (narrow()) Object.assign(figure.xaxis, { nticks: 4, tickangle: 0 }); // slanted labels reach into the legend
  if (narrow()) Object.assign(figure.legend, { y: -0.24, entrywidth: 120, font: { size: 11, color: c("text") } });
  for (const trace of $("explorer").data ?? []) chosen.set(trace.name, trace.visible);
  const traces = [...bands(track, origin, times, c), actual, ...lines];
  for (const trace of traces) trace.visible = chosen.get(trace.name) ?? trace.visible ?? true;
  Plotly.react($("explorer"), traces, figure, {
    ...config, displayModeBar: touch || !narrow(), modeBarButtons: [["zoomIn2d", "zoomOut2d", "pan2d", "zoom2d", "autoScale2d", "toImage"]],
  });
  showOrigin(track.origins.length, last ? `after ${last.replace(/:00$/, "")}` : `from ${times[0].replace(/:00$/, "")}`);
  const zoom = touch ? "the buttons zoom." : "drag to zoom, double-click to go back.";
  const score = track.mse === null ? "" : `Over all test forecasts of this column: scaled MSE ${digits(track.mse)}, skill ${percent(track.skill)} against the better baseline. `;
  $("track-note").textContent = `${score}A click in the legend shows or hides a line; ${zoom}`;
  fillAhead(track, origin, times);
  if (visible.has("sources")) drawSources();
}
function fillAhead(track, origin, times) {
  const columns = { time: times.map((time) => time.replace(/:00$/, "")), forecast: origin.lines[report.model] ?? Object.values(origin.lines)[0] };
  for (const [name, [low, high]] of Object.entries(origin.bands)) Object.assign(columns, { [`${name} from`]: low, [`${name} to`]: high });
  const names = Object.keys(columns);
  document.querySelector("#ahead thead tr").replaceChildren(...names.map((name) => cell("th", name, name === "time" ? "text" : "")));
  document.querySelector("#ahead tbody").replaceChildren(...times.map((_, step) => {
    const line = document.createElement("tr");
    line.append(...names.map((name) => (name === "time" ? cell("td", columns.time[step], "text") : cell("td", digits(columns[name][step], 6)))));
    return line;
  }));
  const rows = [names, ...times.map((_, step) => names.map((name) => columns[name][step] ?? ""))];
  URL.revokeObjectURL($("download").href);
  $("download").href = URL.createObjectURL(new Blob([rows.map((row) => row.join(",")).join("\n") + "\n"], { type: "text/csv" }));
  $("download").download = `${[track.series, track.column].filter(Boolean).join(" ").replace(/[^\w.-]+/g, "_")}.csv`;
}
function showOrigin(n, when) {
  const text = n > 1 ? `Forecast ${state.origin + 1} of ${n}, ${when}` : `Forecast ${when}`;
  $("origin-label").textContent = text;
  $("origin").setAttribute("aria-valuetext", text);
  $("earlier").disabled = state.origin === 0;
  $("later").disabled = state.origin === n - 1;
}
function show(place) {
  const track = report.tracks[place];
  fillSeries(track.series);
  fillColumns(track.column);
  pick();
}
function move(by) {
  const wanted = state.origin + by;
  if (wanted < 0 || wanted > Number($("origin").max)) return;
  state.origin = wanted;
  $("origin").value = wanted;
  drawTrack();
}
function startExplorer() {
  if (!report.tracks.length) return;
  const hide = (kind, gone) => document.querySelectorAll(".for-" + kind).forEach((each) => { each.hidden = gone; });
  hide("series", unique(report.tracks.map((track) => track.series)).length < 2);
  hide("column", unique(report.tracks.map((track) => track.column)).length < 2);
  const scored = report.tracks.some((track) => track.mse !== null);
  hide("order", report.tracks.length < 3 || !scored);
  if (!scored) $("order").value = "name";
  hide("origin", report.tracks.every((track) => track.origins.length < 2));
  $("series").onchange = () => { fillColumns($("column").value); pick(); };
  $("column").onchange = pick;
  $("order").onchange = () => { fillSeries(); fillColumns(); pick(); };
  $("extent").onchange = drawTrack;
  $("origin").oninput = () => { state.origin = Number($("origin").value); drawTrack(); };
  $("earlier").onclick = () => move(-1);
  $("later").onclick = () => move(1);
  state.origin = report.tracks[0].origins.length - 1;
  show(Math.max(report.tracks.findIndex((each) => each.column === (report.main || report.columns.at(-1))), 0));
}

// ---------------------------------------------------------------- sources of a forecast
const MOST_SOURCES = 8;
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
function drawSources() {
  const track = report.tracks[state.track], own = report.sources[state.track], c = colours();
  const times = timesOf(track, track.origins[state.origin]), [level] = own.values;
  const sizes = own.values.map((values) => mean(values.map(Math.abs)));
  const order = own.names.map((_, i) => i).slice(1).sort((a, b) => sizes[b] - sizes[a]);
  const [most, rest] = [order.slice(0, MOST_SOURCES), order.slice(MOST_SOURCES)];
  const colour = ["first", "second", "third", "fourth", "soft", "bad", "level", "good"];
  const bars = most.map((i, place) => ({ name: plain(short(own.names[i], 30)), y: own.values[i], colour: colour[place] }));
  if (rest.length) bars.push({ name: `${rest.length} more`, y: level.map((_, step) => rest.reduce((sum, i) => sum + own.values[i][step], 0)), colour: "line" });
  const line = (name, values, tone, dash) => ({
    x: times, y: values.map((value, step) => (value === null ? null : value - level[step])), name, mode: times.length > 1 ? "lines" : "markers",
    line: { color: c(tone), width: 2.4, dash }, hovertemplate: "%{y:.5~g}",
  });
  draw("sources", [
    ...bars.map(({ name, y, colour }) => ({ x: times, y, name, type: "bar", marker: { color: c(colour), opacity: 0.75 }, hovertemplate: "%{y:.5~g}" })),
    ...(own.other ? [line(own.other.name, own.other.values, "text", "dot")] : []),
    line("forecast", own.forecast, "model", "solid"),
  ], layout(c, {
    barmode: "relative", bargap: 0.15, margin: { l: 56, r: 12, t: 8, b: 40 }, legend: { y: -0.13, yanchor: "top" },
    xaxis: { type: "date" }, yaxis: { title: `${plain(short(track.column, 40))} − level`, rangemode: "normal" },
  }));
  $("sources-note").textContent = `Level ${digits(mean(level), 5)}. Mean of the forecast ${digits(mean(own.forecast), 5)}.`;
}

// ---------------------------------------------------------------- errors, coverage, residuals
const MOST_BARS = 30;
function withMain(places, names) { // the column that is asked for is never left out
  const main = names.includes(report.main) ? names.indexOf(report.main) : names.length - 1;
  return places.includes(main) ? places : [...places.slice(0, -1), main];
}
function drawProfile(profile) {
  const c = colours(), metric = $("metric").value, values = profile[metric];
  const numbers = profile.labels.every((label) => typeof label === "number");
  const own = values[report.model] ?? Object.values(values)[0];
  let places = profile.labels.map((_, i) => i);
  if (profile.key === "column") places = withMain(places.sort((a, b) => own[b] - own[a]).slice(0, MOST_BARS), profile.labels);
  const labels = places.map((i) => profile.labels[i]);
  const label = (name) => plain(short(name, narrow() ? 30 : 60));
  const traces = Object.keys(values).map((name) => {
    const { colour, dash, width } = look(name);
    const y = places.map((i) => values[name][i]), hovertemplate = "%{y:.4~g}";
    return numbers
      ? { x: labels, y, name: label(name), mode: "lines", line: { color: c(colour), dash, width }, hovertemplate }
      : { x: places.map((_, i) => i), y, name: label(name), type: "bar", marker: { color: c(colour) }, hovertemplate };
  });
  // the legend takes a line per name on a phone: the plot keeps its height
  $("chart-" + profile.key).style.height = traces.length > 4 ? `${(narrow() ? 260 : 280) + 18 * traces.length}px` : "";
  const title = profile.key === "column" && profile.labels.length > MOST_BARS ? `${MOST_BARS} of ${profile.labels.length} columns, largest error first` : profile.axis;
  const ticks = numbers ? {} : { tickvals: places.map((_, i) => i), ticktext: labels.map((label) => plain(short(label, 14))) };
  draw("chart-" + profile.key, traces, layout(c, { bargap: 0.25, xaxis: { title: plain(title), ...ticks }, yaxis: { title: `${metric.toUpperCase()}, ${profile.units}` } }));
}
const TINTS = ["model", "first", "second", "third"];
const goals = (c) => report.coverage.map((each, i) => ({
  type: "line", xref: "paper", x0: 0, x1: 1, y0: each.expected, y1: each.expected, line: { color: c(TINTS[i % 4]), dash: "dash", width: 1.2 },
}));
function drawCoverageByStep() {
  const c = colours();
  const lowest = Math.min(...report.coverage.flatMap((each) => [...each.by_step, each.expected]));
  draw("chart-coverage-step", report.coverage.map((each, i) => ({
    x: each.by_step.map((_, place) => place + 1), y: each.by_step, name: plain(each.name), mode: "lines", hovertemplate: "%{y:.1f} %",
    line: { color: c(TINTS[i % 4]), width: 2 },
  })), layout(c, { shapes: goals(c), xaxis: { title: "steps ahead" }, yaxis: { title: "percent covered", rangemode: "normal", range: [Math.max(0, lowest - 10), 101] } }));
}
function drawCoverageByColumn() {
  const c = colours(), covered = report.coverage[0].by_column, many = report.columns.length > MOST_BARS;
  const order = report.columns.map((_, i) => i);
  if (many) order.sort((a, b) => covered[a] - covered[b]);
  const places = withMain(order.slice(0, MOST_BARS), report.columns), x = places.map((_, i) => i);
  const ticks = { tickvals: x, ticktext: places.map((i) => plain(short(report.columns[i], 14))) };
  draw("chart-coverage-column", report.coverage.map((each, i) => ({
    x, y: places.map((place) => each.by_column[place]), name: plain(each.name), type: "bar", hovertemplate: "%{y:.1f} %",
    marker: { color: c(TINTS[i % 4]) },
  })), layout(c, { shapes: goals(c), xaxis: { title: many ? `${MOST_BARS} of ${report.columns.length} columns, least covered first` : "column", ...ticks }, yaxis: { title: "percent covered", rangemode: "normal", range: [0, 101] } }));
}
function drawResiduals() {
  const found = report.residuals, c = colours(), total = found.counts.reduce((sum, n) => sum + n, 0), last = found.counts.length - 1;
  const middle = found.counts.map((_, i) => (found.edges[i] + found.edges[i + 1]) / 2);
  const text = found.counts.map((_, i) => (i === 0 ? `below ${digits(found.edges[1])}` : i === last ? `above ${digits(found.edges[last])}` : `${digits(found.edges[i])} to ${digits(found.edges[i + 1])}`));
  draw("chart-residuals", [{
    x: middle, y: found.counts.map((n) => (100 * n) / total), type: "bar", text, textposition: "none", marker: { color: c("model") },
    hovertemplate: "%{text}: %{y:.2f} %<extra></extra>", name: "share",
  }], layout(c, { showlegend: false, hovermode: "closest", bargap: 0.05, xaxis: { title: "forecast − actual value, scaled" }, yaxis: { title: "percent of values" } }));
}
const LEAST_BIAS = 0.05; // the axis reaches this far, so that a negligible bias looks like one
function drawBias() {
  const found = report.residuals, c = colours(), known = found.bias_by_step.filter((value) => value !== null);
  const most = Math.max(LEAST_BIAS, ...known.map(Math.abs)) * 1.1;
  draw("chart-bias", [{
    x: found.bias_by_step.map((_, i) => i + 1), y: found.bias_by_step, mode: "lines", line: { color: c("model"), width: 2.4 }, hovertemplate: "%{y:.4~g}", name: "mean residual",
  }], layout(c, { showlegend: false, xaxis: { title: "steps ahead" }, yaxis: { title: "scaled units", rangemode: "normal", zeroline: true, range: [-most, most] } }));
}

function drawLosses() {
  const { training, validation, baselines, units } = report.losses, c = colours();
  const epochs = unique([...training[0], ...validation[0]]).sort((a, b) => a - b), marks = epochs.length > 40 ? "lines" : "lines+markers";
  const curve = ([x, y], name, colour) => ({ x, y, name, mode: marks, line: { color: c(colour), width: 2 }, marker: { size: 5 }, hovertemplate: "%{y:.4~g}" });
  const level = ([name, value]) => {
    const { colour, dash } = look(name);
    return { x: epochs, y: epochs.map(() => value), name: plain(name), mode: marks.slice(0, 5), line: { color: c(colour), dash, width: 1.6 }, hovertemplate: "%{y:.4~g}" };
  };
  const all = [...training[1], ...validation[1], ...Object.values(baselines)], far = Math.min(...all) > 0 && Math.max(...all) > 10 * Math.min(...all);
  draw("chart-losses", [curve(validation, "validation", "model"), curve(training, "training", "soft"), ...Object.entries(baselines).map(level)], layout(c, {
    xaxis: { title: "epoch", ...(epochs.length > 12 ? {} : { tickvals: epochs }) }, yaxis: { title: plain(units), rangemode: "normal", type: far ? "log" : "linear" },
  }));
}

// ---------------------------------------------------------------- attention
function drawAttention() {
  const c = colours(), layer = report.attention[Number($("layer").value)], n = layer.heads.length;
  const across = Math.min(n, narrow() ? 2 : 4), down = Math.ceil(n / across);
  const dark = faded(c("model"), 1), traces = [], more = { grid: { rows: down, columns: across, pattern: "independent", xgap: 0.12, ygap: 0.22 }, annotations: [] };
  layer.heads.forEach((head, i) => {
    const key = i ? String(i + 1) : "";
    const peak = Math.max(...head.map((row) => Math.max(...row)));
    traces.push({
      z: head, type: "heatmap", xaxis: "x" + key, yaxis: "y" + key, showscale: false, zmin: 0, zmax: peak || 1,
      x0: 0, dx: layer.lengths[1] / head[0].length, y0: 0, dy: layer.lengths[0] / head.length,
      colorscale: [[0, c("page")], [1, dark]], hovertemplate: "query %{y:.0f}, key %{x:.0f}: %{z:.3~g}<extra></extra>",
    });
    const axis = { fixedrange: true, showgrid: false, zeroline: false, tickfont: { size: 10, color: c("soft") }, nticks: 4, linecolor: c("line"), automargin: true };
    more["xaxis" + key] = axis;
    more["yaxis" + key] = { ...axis, autorange: "reversed", rangemode: "normal" };
    more.annotations.push({ text: `head ${i + 1}`, showarrow: false, xref: `x${key} domain`, yref: `y${key} domain`, x: 0, y: 1, xanchor: "left", yanchor: "bottom", font: { size: 11, color: c("soft") } });
  });
  $("chart-attention").style.height = `${Math.max(260, down * (narrow() ? 190 : 240))}px`;
  draw("chart-attention", traces, layout(c, { showlegend: false, hovermode: "closest", margin: { l: 36, r: 8, t: 24, b: 28 }, ...more }));
}
function startAttention() {
  report.attention.forEach((layer, i) => {
    const option = document.createElement("option");
    option.value = i;
    option.textContent = `${layer.layer_name} (${layer.lengths[0]} × ${layer.lengths[1]})`;
    $("layer").append(option);
  });
  $("layer").onchange = () => { if (visible.has("chart-attention")) drawAttention(); };
}

// ---------------------------------------------------------------- table of all series
const MOST_ROWS = 200;
function cell(kind, text, name) {
  const made = document.createElement(kind);
  made.textContent = text;
  if (name) made.className = name;
  return made;
}
function fillTable() {
  const wanted = $("find").value.toLowerCase();
  const several = report.series.some((row) => row.series !== "");
  const found = report.series.filter((row) => `${row.series} ${row.column}`.toLowerCase().includes(wanted));
  const names = several ? ["Series", "Column"] : ["Column"];
  document.querySelector("#all thead tr").replaceChildren(...[...names, "MSE, scaled", "Skill", "Windows", ""].map((name, i) => cell("th", name, i < names.length ? "text" : name === "Windows" ? "windows" : "")));
  document.querySelector("#all tbody").replaceChildren(...found.slice(0, MOST_ROWS).map((row) => {
    const line = document.createElement("tr");
    if (several) line.append(cell("td", row.series, "text"));
    line.append(cell("td", row.column, "text"), cell("td", digits(row.mse)), cell("td", percent(row.skill)), cell("td", row.windows.toLocaleString("en"), "windows"));
    const last = cell("td", "");
    if (row.track >= 0) {
      const button = cell("button", "Show");
      button.type = "button";
      button.onclick = () => { show(row.track); $("explorer-title").scrollIntoView({ block: "start" }); };
      last.append(button);
    }
    line.append(last);
    return line;
  }));
  const more = found.length > MOST_ROWS ? ` The ${MOST_ROWS} with the largest error are listed; type a name to find others.` : "";
  $("all-note").textContent = `${found.length.toLocaleString("en")} of ${report.series.length.toLocaleString("en")} rows, largest error first.${more}`;
}

// ---------------------------------------------------------------- the page
// A chart is drawn when it comes near the screen, so that the page opens at once whatever it holds.
const charts = new Map();
const visible = new Set();
function drawAll() { for (const id of visible) charts.get(id)(); }
function startCharts() {
  if (report.tracks.length) charts.set("explorer", drawTrack);
  if (report.sources.length) charts.set("sources", drawSources);
  for (const profile of report.profiles) charts.set("chart-" + profile.key, () => drawProfile(profile));
  if (report.coverage.length) { charts.set("chart-coverage-step", drawCoverageByStep); }
  if (report.coverage.length && report.columns.length > 1) charts.set("chart-coverage-column", drawCoverageByColumn);
  if (report.residuals) { charts.set("chart-residuals", drawResiduals); charts.set("chart-bias", drawBias); }
  if (report.losses) charts.set("chart-losses", drawLosses);
  if (report.attention.length) charts.set("chart-attention", drawAttention);
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((each) => each.isIntersecting)) {
      watch.unobserve(entry.target);
      visible.add(entry.target.id);
      charts.get(entry.target.id)();
    }
  }, { rootMargin: "300px" });
  for (const id of charts.keys()) watch.observe($(id));
  addEventListener("beforeprint", () => { for (const id of charts.keys()) { visible.add(id); charts.get(id)(); } });
}
function startPage() {
  $("metric").onchange = drawAll;
  if (report.series.length > 1) { fillTable(); $("find").oninput = fillTable; }
  $("theme").onclick = () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    drawAll();
  };
  $("copy").onclick = () => {
    const range = document.createRange();
    range.selectNodeContents($("command"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    document.execCommand("copy");
    $("copy").textContent = "Copied";
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
}
async function loadLibrary() {
  const packed = Uint8Array.from(atob($("library").textContent), (sign) => sign.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  document.head.append(script);
}
startPage();
startAttention();
loadLibrary().then(() => {
  startExplorer();
  startCharts();
  document.documentElement.dataset.ready = "true";
}).catch((error) => {
  $("message").hidden = false;
  $("message").className = "notice";
  $("message").textContent = `The charts could not be drawn (${error.message}); they need a browser of 2023 or newer. The tables hold the scores.`;
  throw error;
});
})();

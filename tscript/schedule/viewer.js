"use strict";
(function () {
  const TOKEN = /(?<comment>#.*)|(?<string>"""(?:[^\\]|\\.)*?"""|"(?:[^"\\]|\\.)*")|(?<decorator>^\s*@[\w.]+)|(?<number>(?<![\w.])\d[\w.]*(?:(?<=e)[-+]\d+)?)|(?<name>[A-Za-z_]\w*)/g;
  const KEYWORDS = new Set(("and as assert async await break class continue def del elif else except finally for from global " +
    "if import in is lambda nonlocal not or pass raise return try while with yield").split(" "));
  const CONSTANTS = new Set(["True", "False", "None"]);

  // Text only ever becomes text nodes: nothing of a program is read as markup.
  function make(tag, className, text) {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  }

  function kindOfName(line, at, name) {
    if (CONSTANTS.has(name)) return "constant";
    if (KEYWORDS.has(name)) return "keyword";
    if ((name === "T" || name === "I" || name === "sch") && line[at + name.length] === ".") return "prefix";
    return /(?:def|class) $/.test(line.slice(0, at)) ? "definition" : "";
  }

  function coloured(node, line) {
    let done = 0;
    for (const m of line.matchAll(TOKEN)) {
      let kind = Object.keys(m.groups).find((k) => m.groups[k] !== undefined);
      if (kind === "name") kind = kindOfName(line, m.index, m[0]);
      if (!kind) continue;
      if (m.index > done) node.append(line.slice(done, m.index));
      node.append(make("span", "ts-" + kind, m[0]));
      done = m.index + m[0].length;
    }
    if (done < line.length) node.append(line.slice(done));
    return node;
  }

  // The program at each step, from the lines that all steps share.
  function programs(data) {
    const found = [];
    let now = [];
    for (const edits of data.edits) {
      const next = [];
      let at = 0;
      for (const [start, gone, added] of edits) {
        next.push(...now.slice(at, start));
        for (let k = 0; k < added.length; k += 2) next.push(" ".repeat(added[k]) + data.lines[added[k + 1]]);
        at = start + gone;
      }
      next.push(...now.slice(at));
      found.push(next);
      now = next;
    }
    return found;
  }

  // Rows [mark before, line before, mark after, line after]; a missing line is null.
  function rows(before, after, edits) {
    const found = [];
    let at = 0, to = 0;
    const keep = (end) => { while (at < end) found.push([" ", before[at++], " ", after[to++]]); };
    for (const [start, gone, added] of edits) {
      keep(start);
      const count = added.length / 2;
      for (let k = 0; k < Math.max(gone, count); k++)
        found.push([k < gone ? "-" : " ", k < gone ? before[at + k] : null, k < count ? "+" : " ", k < count ? after[to + k] : null]);
      at += gone; to += count;
    }
    keep(before.length);
    return found;
  }

  function lineNode(mark, line) {
    const state = mark === "-" ? " is-gone" : mark === "+" ? " is-new" : line === null ? " is-missing" : "";
    const node = make("div", "ts-line" + state);
    const sign = make("span", "ts-mark", mark);
    sign.setAttribute("aria-hidden", "true");
    const code = make("span", "ts-text");
    if (line !== null) coloured(code, line);
    if (state === " is-gone" || state === " is-new")
      code.prepend(make("span", "ts-spoken", state === " is-new" ? "added: " : "removed: "));
    node.append(sign, code);
    return node;
  }

  function pane(name, title) {
    const box = make("section", "ts-pane ts-" + name);
    const code = make("div", "ts-code");
    code.tabIndex = 0;
    code.setAttribute("role", "region");
    code.setAttribute("aria-label", title);
    box.append(make("h4", "ts-pane-title", title), code);
    return [box, code];
  }

  function heading(names) {
    const head = make("thead"), row = make("tr");
    for (const name of names) {
      const cell = make("th", "", name);
      cell.scope = "col";
      row.append(cell);
    }
    head.append(row);
    return head;
  }

  function costTable(data, step) {
    const table = make("table", "ts-costs"), previous = step ? step - 1 : step;
    table.append(make("caption", "", step ? "Estimated cost, and how the step changed it" : "Estimated cost at the start"));
    table.append(heading(step ? ["", "before", "after", "change"] : ["", "now"]));
    const body = make("tbody");
    data.metrics.forEach((name, k) => {
      const [was, old] = data.costs[data.steps[previous].cost][k], [now, text] = data.costs[data.steps[step].cost][k];
      const row = make("tr", step && old !== text ? "is-changed" : "");
      const label = make("th", "", name);
      label.scope = "row";
      row.append(label);
      if (step) row.append(make("td", "", old));
      row.append(make("td", "ts-now", text));
      if (step) row.append(make("td", "ts-ratio", old === text ? "" : change(was, now)));
      body.append(row);
    });
    table.append(body);
    return table;
  }

  function change(was, now) {
    if (typeof was !== "number" || typeof now !== "number") return "changed";
    if (!was || !now) return now > was ? "new" : "gone";
    const ratio = now / was;
    if (Math.abs(ratio - 1) < 0.005) return ratio > 1 ? "slightly up" : "slightly down";
    return ratio >= 1 ? "× " + shown(ratio) : "÷ " + shown(1 / ratio);
  }

  function shown(x) { return x < 9.995 ? x.toFixed(2) : x < 99.95 ? x.toFixed(1) : Math.round(x).toString(); }

  function bufferTable(data, step) {
    const table = make("table", "ts-costs ts-buffers");
    const before = new Set(step ? data.buffers[data.steps[step - 1].buffers] : []);
    table.append(make("caption", "", "Memory of each buffer"));
    table.append(heading(data.columns));
    const body = make("tbody");
    for (const number of data.buffers[data.steps[step].buffers]) {
      const row = make("tr", step && !before.has(number) ? "is-changed" : "");
      data.rows[number].forEach((v, k) => {
        const cell = make(k ? "td" : "th", "", v);
        if (!k) cell.scope = "row";
        row.append(cell);
      });
      body.append(row);
    }
    table.append(body);
    return table;
  }

  function button(text, label, act) {
    const node = make("button", "ts-button", text);
    node.type = "button";
    node.setAttribute("aria-label", label);
    node.title = label;
    node.addEventListener("click", act);
    return node;
  }

  function start(root) {
    const data = JSON.parse(root.querySelector("script").textContent);
    const all = programs(data), last = all.length - 1;
    let now = last, chosen = "";

    const slider = make("input", "ts-slider");
    Object.assign(slider, { type: "range", min: 0, max: last, value: now, disabled: last === 0 });
    slider.setAttribute("aria-label", "Step of the schedule");
    const count = make("output", "ts-count");
    const back = button("‹", "Previous step", () => go(now - 1)), next = button("›", "Next step", () => go(now + 1));
    const views = make("div", "ts-views");
    views.setAttribute("role", "group");
    views.setAttribute("aria-label", "How programs are shown");
    for (const [name, text] of [["both", "Side by side"], ["marked", "Marked"], ["after", "Program"]]) {
      const b = button(text, "View: " + text, () => { chosen = name; show(); });
      b.dataset.view = name;
      views.append(b);
    }
    const bar = make("div", "ts-bar");
    bar.append(back, slider, next, count, views);

    const list = make("ol", "ts-steps-list");
    list.setAttribute("aria-label", "Steps");
    data.steps.forEach((s, k) => {
      const item = make("li"), b = make("button", "ts-step");
      b.type = "button";
      b.append(make("span", "ts-number", String(k)), make("span", "ts-name", s.name));
      b.addEventListener("click", () => go(k));
      item.append(b);
      list.append(item);
    });
    const call = make("div", "ts-call"), body = make("div", "ts-body"), main = make("div", "ts-main");
    call.setAttribute("aria-live", "polite");
    const costs = make("div", "ts-tables");
    costs.tabIndex = 0;
    costs.setAttribute("role", "region");
    costs.setAttribute("aria-label", "Estimated costs");
    main.append(call, body, costs);
    const frame = make("div", "ts-frame");
    frame.append(list, main);
    const view = root.querySelector(".ts-view");
    view.replaceChildren(bar, frame, make("p", "ts-hint", data.hint));

    function go(step) {
      now = Math.min(Math.max(step, 0), last);
      show();
    }

    function view_() { return chosen || (root.clientWidth >= 900 ? "both" : "marked"); }

    function show() {
      const step = data.steps[now], edits = data.edits[now], kind = now ? view_() : "after";
      slider.value = now;
      slider.setAttribute("aria-valuetext", "step " + now + " of " + last + ": " + step.name);
      count.textContent = now + " / " + last;
      back.disabled = now === 0;
      next.disabled = now === last;
      root.dataset.step = now;
      for (const b of views.children) b.setAttribute("aria-pressed", String(b.dataset.view === kind));
      for (const b of views.children) b.disabled = now === 0;
      [...list.children].forEach((item, k) => {
        if (k === now) item.firstChild.setAttribute("aria-current", "step");
        else item.firstChild.removeAttribute("aria-current");
      });
      const current = list.children[now];
      if (current.offsetTop < list.scrollTop || current.offsetTop + current.offsetHeight > list.scrollTop + list.clientHeight)
        list.scrollTop = current.offsetTop - list.clientHeight / 2;
      call.replaceChildren(...step.calls.map((c, k) =>
        coloured(make("div", k === step.main ? "ts-this" : "ts-query"), c)));
      if (step.note) call.append(make("div", "ts-note", step.note));
      body.className = "ts-body is-" + kind;
      programsShown(kind, edits);
      costs.replaceChildren();
      if (data.metrics.length) costs.append(costTable(data, now));
      if (data.rows.length) costs.append(bufferTable(data, now));
    }

    function programsShown(kind, edits) {
      const made = now ? rows(all[now - 1], all[now], edits) : all[0].map((line) => [" ", null, " ", line]);
      const codes = [];
      if (kind === "both") {
        const [left, before] = pane("before", "Before"), [right, after] = pane("after", "After");
        before.append(...made.map((r) => lineNode(r[0], r[1])));
        after.append(...made.map((r) => lineNode(r[2], r[3])));
        body.replaceChildren(left, right);
        codes.push(before, after);
        follow(before, after);
        follow(after, before);
      } else {
        const [box, code] = pane("after", kind === "marked" ? "Before and after" : now ? "After" : "The program at the start");
        for (let k = 0; k < made.length;) {
          if (kind === "after" || made[k][0] + made[k][2] === "  ") {
            if (made[k][3] !== null) code.append(lineNode(kind === "after" ? made[k][2] : " ", made[k][3]));
            k++;
            continue;
          }
          let end = k;
          while (end < made.length && made[end][0] + made[end][2] !== "  ") end++;
          const block = made.slice(k, end);
          code.append(...block.filter((r) => r[1] !== null).map((r) => lineNode("-", r[1])));
          code.append(...block.filter((r) => r[3] !== null).map((r) => lineNode("+", r[3])));
          k = end;
        }
        body.replaceChildren(box);
        codes.push(code);
      }
      for (const code of codes) {
        const first = code.querySelector(".is-new,.is-gone");
        if (first) code.scrollTop = Math.max(first.offsetTop - 60, 0);
      }
    }

    function follow(one, other) {
      one.addEventListener("scroll", () => {
        if (other.scrollTop !== one.scrollTop) other.scrollTop = one.scrollTop;
        if (other.scrollLeft !== one.scrollLeft) other.scrollLeft = one.scrollLeft;
      });
    }

    slider.addEventListener("input", () => go(Number(slider.value)));
    root.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
      // In a pane, arrows scroll.
      if (event.target.closest(".ts-code,.ts-tables")) return;
      const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
      if (to === undefined) return;
      // A notebook has meanings of its own for keys.
      event.preventDefault();
      event.stopPropagation();
      go(to);
    });
    let wide = root.clientWidth >= 900;
    if (typeof ResizeObserver !== "undefined")
      new ResizeObserver(() => {
        const is = root.clientWidth >= 900;
        if (is !== wide) { wide = is; if (!chosen) show(); }
      }).observe(root);
    root.tabIndex = 0;
    root.classList.add("is-ready");
    show();
  }

  for (const root of document.querySelectorAll(".tscript-steps:not([data-started])")) {
    root.dataset.started = "";
    start(root);
  }
})();

// The switch for recorded arguments, without which no rule is proposed.

import { post } from "./api.js";
import { announce, h, toast } from "./dom.js";

/** Time between looks at whether the host has read the file, in milliseconds, and their number. */
const LOOK = 250;
const LOOKS = 20;

let latest;

async function choose(box, app) {
  const wanted = box.checked;
  try {
    await post("setup/recording", { arguments: wanted });
    for (let look = 0; look < LOOKS && latest !== wanted; look += 1) {
      await new Promise((next) => setTimeout(next, LOOK));
      await app.refresh();
    }
    if (latest === wanted) announce(wanted ? "Arguments are recorded." : "Arguments are no longer recorded.");
    else toast(wanted ? "The host has not read its configuration yet." : "Arguments are still recorded: another configuration file or --audit-arguments asks for it.", "bad");
  } catch (error) {
    toast(error.message, "bad");
  }
  box.checked = latest;
  app.render();
}

/** The switch, where Hospes' own configuration file can be changed. `setup` is what `GET /api/setup` answers. */
export function recordingSwitch({ recordsArguments, config }, app) {
  latest = recordsArguments;
  return h("div", { class: "recording", key: "recording" },
    config
      ? h("label", { class: "check" }, h("input", { type: "checkbox", role: "switch", "data-recording": true, checked: recordsArguments, onchange: (event) => choose(event.target, app) }), "Record the arguments of calls, encrypted")
      : h("p", null, recordsArguments ? "Arguments of calls are recorded." : ["Arguments of calls are recorded with ", h("code", null, "[audit] arguments = true"), " in the configuration."]),
    h("p", { class: "soft small" }, "Rules are proposed from them once you have answered alike three times, and the effect of a rule is known exactly. Without them, only their size is recorded.",
      config && [" Kept as ", h("code", null, "[audit] arguments"), " in ", h("span", { class: "mono" }, config), "."]));
}

// The page of a link: what stands behind the `#` is exchanged for a session, and goes from the address at once.

import { keep, request } from "./api.js";

const token = location.hash.slice(1);
history.replaceState(null, "", "/open");

function say(title, text) {
  document.getElementById("title").textContent = title;
  document.getElementById("text").textContent = text;
}

if (!token) {
  say("This link is incomplete", "Run “hospes console” in a terminal for a new one.");
} else {
  try {
    const { key } = await request("POST", "open", { token });
    keep(key);
    location.replace("/");
  } catch (error) {
    say(error.code === "no-link" ? "This link is no longer valid" : "The console cannot be opened", error.message);
  }
}

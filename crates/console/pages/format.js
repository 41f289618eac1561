// Numbers and moments for people.

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const short = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", hour12: false });
const counted = new Intl.NumberFormat();

/** `14:03:59`, with the day where it is not today. */
export function time(date, withSeconds = true) {
  const text = (withSeconds ? clock : short).format(date);
  return date.toDateString() === new Date().toDateString() ? text : `${day.format(date)}, ${text}`;
}

export const moment = (date) => whole.format(date);
export const count = (number) => counted.format(number);

/** `1 tool`, `3 tools`. */
export const many = (number, one, more = `${one}s`) => `${count(number)} ${number === 1 ? one : more}`;

/** A length of time in milliseconds: `3 s`, `12 min`, `2 h 5 min`, `4 days`. */
export function span(millis) {
  const seconds = Math.max(0, Math.round(millis / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) {
    const minutes = Math.floor((seconds / 60) % 60);
    return `${Math.floor(seconds / 3600)} h${minutes ? ` ${minutes} min` : ""}`;
  }
  return many(Math.floor(seconds / 86400), "day");
}

/** How long ago. */
export const ago = (date) => (Date.now() - date < 5000 ? "just now" : `${span(Date.now() - date)} ago`);

/** Microseconds: `0.4 ms`, `12 ms`, `1.3 s`. */
export function micros(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1000) return `${(value / 1000).toFixed(2)} ms`;
  if (value < 10_000) return `${(value / 1000).toFixed(1)} ms`;
  if (value < 1_000_000) return `${Math.round(value / 1000)} ms`;
  if (value < 60_000_000) return `${(value / 1_000_000).toFixed(1)} s`;
  return span(value / 1000);
}

/** Bytes: `812 B`, `3.1 kB`, `2 MB`. */
export function bytes(value) {
  if (value < 1000) return `${value} B`;
  if (value < 1_000_000) return `${(value / 1000).toFixed(1)} kB`;
  return `${(value / 1_000_000).toFixed(1)} MB`;
}

/** A word for a shell. */
export const shell = (text) => (/^[\w@%+=:,./-]+$/.test(text) && !text.startsWith("-") ? text : `'${text.replaceAll("'", "'\\''")}'`);

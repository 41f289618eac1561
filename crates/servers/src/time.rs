//! Server for the current time and for time conversions.

use hospes::prelude::*;
use hospes::server::Json;
use hospes::{IntoServer, Server};
use jiff::civil::{DateTime, Time as ClockTime};
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Maximum number of suggestions for a misspelt zone.
const MAX_SUGGESTIONS: usize = 5;

/// Source of the current time.
type TimeSource = fn() -> Timestamp;

struct TimeServer {
    clock: TimeSource,
    home: TimeZone,
}

/// A moment, as a clock and a calendar in one zone show it.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Moment {
    /// The zone.
    timezone: String,
    /// Date, time and offset, as in RFC 3339.
    datetime: String,
    /// The day of the week.
    weekday: String,
    /// Whether daylight saving time is in force.
    daylight_saving: bool,
    /// Seconds since 1970-01-01 in UTC.
    unix: i64,
}

/// One moment in two zones.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Conversion {
    from: Moment,
    to: Moment,
    /// How far the clock of the second zone is ahead of that of the first.
    difference: String,
}

/// Tells the time, and converts times between zones. Zones have IANA names such as `Europe/Rome`, or are offsets such
/// as `+05:30`.
#[hospes::server(name = "time", title = "Time")]
impl TimeServer {
    /// The current date and time.
    #[tool(title = "Current time", read_only, open_world = false)]
    fn now(
        &self,
        /// The zone to show it in; the server's own unless said.
        timezone: Option<&str>,
    ) -> Result<Json<Moment>> {
        let zone = self.zone(timezone)?;
        Ok(Json(moment(&(self.clock)().to_zoned(zone))))
    }

    /// Converts a time from one zone to another.
    #[tool(title = "Convert a time", read_only, idempotent, open_world = false)]
    fn convert(
        &self,
        /// The time: `HH:MM`, today in the first zone; or a date and time, `YYYY-MM-DDTHH:MM`.
        time: &str,
        /// The zone that the time is given in; the server's own unless said.
        from: Option<&str>,
        /// The zone to convert it to; the server's own unless said.
        to: Option<&str>,
    ) -> Result<Json<Conversion>> {
        let (from, to) = (self.zone(from)?, self.zone(to)?);
        let local = self.local(time, &from)?;
        // A time skipped by a clock change is interpreted as if it existed; a repeated one as the first.
        let from = local.to_zoned(from)?;
        let to = from.with_time_zone(to);
        let ahead = to.datetime().duration_since(from.datetime());
        Ok(Json(Conversion { difference: difference(ahead.as_mins()), from: moment(&from), to: moment(&to) }))
    }

    /// The zones that there are.
    #[resource("time://zones", name = "Time zones", mime = "text/plain")]
    fn zones() -> String {
        names().collect::<Vec<_>>().join("\n")
    }

    /// The current date and time in a zone.
    #[resource("time://now/{+zone}", name = "Time in a zone", mime = "application/json")]
    fn now_in(&self, zone: &str) -> Result<Option<Json<Moment>>> {
        let Ok(zone) = find(zone) else { return Ok(None) };
        Ok(Some(Json(moment(&(self.clock)().to_zoned(zone)))))
    }

    #[complete(now_in.zone)]
    fn zones_like(typed: &str) -> Vec<String> {
        let all: Vec<String> = names().collect();
        hospes::server::fitting(typed, &all).into_iter().map(str::to_owned).collect()
    }
}

impl TimeServer {
    fn zone(&self, name: Option<&str>) -> Result<TimeZone> {
        name.map_or_else(|| Ok(self.home.clone()), find)
    }

    /// Returns the date and time that `text` means in `zone`.
    fn local(&self, text: &str, zone: &TimeZone) -> Result<DateTime> {
        // The parser also extracts the time from a full date and time, whose date must not be lost.
        if let Ok(time) = text.parse::<ClockTime>()
            && !text.contains(['T', 't', ' '])
        {
            return Ok((self.clock)().to_zoned(zone.clone()).date().to_datetime(time));
        }
        text.parse::<DateTime>().map_err(|why| {
            Error::msg(format!(
                "{text:?} is not a valid time: write HH:MM, or YYYY-MM-DDTHH:MM for another day ({why})"
            ))
        })
    }
}

/// Creates a server that returns the current time and converts times. The default zone is that of this machine.
///
/// ```no_run
/// # async fn example() -> hospes::Result<()> {
/// hospes::serve(hospes_servers::time()).await
/// # }
/// ```
///
/// | tool | description |
/// |---|---|
/// | `now` | returns the date and time in a zone |
/// | `convert` | converts a time from one zone to another |
///
/// The resource `time://zones` lists the zones, and `time://now/ZONE` is the current time in one.
pub fn time() -> Server {
    TimeServer { clock: Timestamp::now, home: TimeZone::system() }.into_server()
}

fn names() -> impl Iterator<Item = String> {
    jiff::tz::db().available().map(|name| name.as_str().to_owned())
}

fn find(name: &str) -> Result<TimeZone> {
    if name.eq_ignore_ascii_case("utc") || name.eq_ignore_ascii_case("z") {
        return Ok(TimeZone::UTC);
    }
    // A zone name, or an offset.
    if let Ok(zone) = DateTimeParser::new().parse_time_zone(name) {
        return Ok(zone);
    }
    let all: Vec<String> = names().collect();
    // People write the city; the zone name begins with the continent.
    let city = name.rsplit('/').next().unwrap_or(name).trim().replace(' ', "_");
    let mut near = hospes::server::fitting(&city, &all);
    let whole = |name: &&str| name.to_lowercase().contains(&city.to_lowercase());
    // Names that merely contain the letters are suggested if there is no better match.
    if near.iter().any(whole) {
        near.retain(whole);
    }
    let hint = match near.get(..near.len().min(MAX_SUGGESTIONS)) {
        Some(near) if !near.is_empty() && !city.is_empty() => format!("did you mean {}?", near.join(", ")),
        _ => "zones have names such as Europe/Rome, or are offsets such as +05:30".to_owned(),
    };
    Err(Error::msg(format!("unknown time zone {name:?}; {hint}")))
}

fn moment(zoned: &Zoned) -> Moment {
    let zone = zoned.time_zone();
    let name = match zone.iana_name() {
        Some(name) => name.to_owned(),
        None => zoned.offset().to_string(),
    };
    Moment {
        timezone: name,
        datetime: zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        weekday: zoned.strftime("%A").to_string(),
        daylight_saving: zone.to_offset_info(zoned.timestamp()).dst().is_dst(),
        unix: zoned.timestamp().as_second(),
    }
}

/// Formats minutes as an offset such as `+05:45`.
fn difference(minutes: i64) -> String {
    let sign = if minutes < 0 { '-' } else { '+' };
    let minutes = minutes.unsigned_abs();
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time() -> TimeServer {
        // A Saturday morning in the northern summer.
        let clock = || "2026-08-01T06:30:15Z".parse().unwrap();
        TimeServer { clock, home: TimeZone::get("Europe/Rome").unwrap() }
    }

    fn convert(when: &str, from: &str, to: &str) -> Result<Conversion> {
        Ok(time().convert(when, Some(from), Some(to))?.0)
    }

    #[test]
    fn it_is_now_everywhere() {
        let home = time().now(None).unwrap().0;
        assert_eq!(home.timezone, "Europe/Rome");
        assert_eq!(home.datetime, "2026-08-01T08:30:15+02:00");
        assert_eq!((home.weekday.as_str(), home.daylight_saving), ("Saturday", true));
        let there = time().now(Some("Asia/Kathmandu")).unwrap().0;
        assert_eq!(there.datetime, "2026-08-01T12:15:15+05:45");
        assert!(!there.daylight_saving);
        assert_eq!(there.unix, home.unix);
        assert_eq!(time().now(Some("utc")).unwrap().0.datetime, "2026-08-01T06:30:15+00:00");
        assert_eq!(time().now(Some("-03:30")).unwrap().0.datetime, "2026-08-01T03:00:15-03:30");
    }

    #[test]
    fn times_are_converted() {
        let there = convert("22:00", "America/New_York", "Asia/Tokyo").unwrap();
        assert_eq!(there.from.datetime, "2026-08-01T22:00:00-04:00");
        assert_eq!(there.to.datetime, "2026-08-02T11:00:00+09:00");
        assert_eq!(there.to.weekday, "Sunday");
        assert_eq!(there.difference, "+13:00");
        assert_eq!(convert("12:00", "Asia/Kathmandu", "UTC").unwrap().difference, "-05:45");
        let other_day = convert("2026-01-15T09:00", "Europe/Rome", "America/New_York").unwrap();
        assert_eq!(other_day.to.datetime, "2026-01-15T03:00:00-05:00");
    }

    /// On the last Sunday in March the clocks are set from two to three.
    #[test]
    fn a_time_that_the_clocks_leave_out_is_taken_as_if_they_did_not() {
        let there = convert("2026-03-29T02:30", "Europe/Rome", "UTC").unwrap();
        assert_eq!(there.to.datetime, "2026-03-29T01:30:00+00:00");
    }

    #[test]
    fn mistakes_say_what_to_do() {
        let why = time().now(Some("Rome")).unwrap_err().to_string();
        assert!(why.contains("did you mean Europe/Rome?"), "{why}");
        let why = time().now(Some("new york")).unwrap_err().to_string();
        assert!(why.contains("America/New_York"), "{why}");
        let why = time().now(Some("")).unwrap_err().to_string();
        assert!(why.contains("such as Europe/Rome"), "{why}");
        let why = convert("half past nine", "UTC", "UTC").unwrap_err().to_string();
        assert!(why.contains("is not a valid time: write HH:MM"), "{why}");
    }

    #[test]
    fn zones_are_offered() {
        assert!(TimeServer::zones_like("rome").contains(&"Europe/Rome".to_owned()));
        assert!(TimeServer::zones().contains("\nEurope/Rome\n"));
    }
}

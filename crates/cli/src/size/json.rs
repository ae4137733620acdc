//! Converts the result of a run to JSON. The field names are documented in `docs/performance.md`.
//! Times are in microseconds unless the field name specifies another unit.

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::accounting;
use super::finding::Finding;
use super::learn;
use super::reader::{Account, Watcher};
use super::refusal::Refusal;
use super::run::Outcome;
use super::seeds::Spread;
use super::warnings;

pub(crate) fn run(outcome: &Outcome, findings: &[Finding]) -> Value {
    let (settings, published) = (&outcome.settings, &outcome.published);
    let each = settings.watchers.iter().zip(&outcome.accounts).zip(findings);
    let watchers: Vec<Value> =
        each.map(|((watcher, account), finding)| one(watcher, account, finding)).collect();
    let faults = accounting::faults(outcome);
    json!({
        "settings": {
            "rate": settings.load.rate,
            "burst": settings.load.burst,
            "everyUs": micros(settings.load.every.as_nanos() as u64),
            "forSeconds": settings.length.as_secs_f64(),
            "graceSeconds": settings.grace.as_secs_f64(),
            "incoming": settings.incoming,
        },
        "publisher": {
            "asked": published.asked,
            "published": published.accepted + published.refused,
            "accepted": published.accepted,
            "refused": published.refused,
            "seconds": published.took.as_secs_f64(),
            "askedRate": published.asked_rate(),
            "rate": published.rate(),
            "lateUs": quantiles(&published.late),
        },
        "bus": bus(Refusal::of(outcome).as_ref(), settings.incoming),
        "interrupted": outcome.interrupted,
        "complete": outcome.complete,
        "addsUp": faults.is_empty(),
        "faults": faults,
        "watchers": watchers,
        "warnings": warnings::warnings(outcome).into_iter().map(|warning| warning.text).collect::<Vec<_>>(),
        "learned": learn::learned(outcome, findings),
    })
}

/// Returns the part of the result that describes the bus's incoming queue, whose length is
/// `incoming`.
pub(crate) fn bus(refusal: Option<&Refusal>, incoming: usize) -> Value {
    json!({
        "queue": incoming,
        "refused": refusal.map_or(0, |refusal| refusal.refused),
        "refusedPercent": refusal.map_or(0.0, Refusal::percent),
        "enough": refusal.map(|refusal| json!({"queue": refusal.at_least, "basis": "atLeast"})),
    })
}

fn seeds(spread: Spread) -> Value {
    json!({
        "count": spread.count,
        "least": spread.least,
        "median": spread.median,
        "most": spread.most,
        "mostSeed": spread.most_seed,
        "oneMoreIn": spread.one_in(),
    })
}

fn one(watcher: &Watcher, account: &Account, finding: &Finding) -> Value {
    let Account { stats, seen, .. } = account;
    let dropped = &stats.dropped;
    let first = finding.first.as_ref().map(|first| {
        json!({
            "seconds": first.after.as_secs_f64(),
            "event": first.event,
            "reason": first.reason.to_string(),
            "rush": {
                "events": first.rush.events,
                "withinUs": micros(first.rush.within.as_nanos() as u64),
                "handled": first.rush.handled,
            },
            "why": first.why,
        })
    });
    json!({
        "name": watcher.name,
        "queue": watcher.queue,
        "policy": watcher.policy.to_string(),
        "handler": watcher.times.to_string(),
        "utilisation": finding.utilisation,
        "offered": stats.offered,
        "delivered": stats.delivered,
        "dropped": {
            "total": dropped.total(),
            "incoming": dropped.incoming,
            "oldest": dropped.oldest,
            "timedOut": dropped.timed_out,
            "stopped": dropped.stopped,
            "abandoned": dropped.abandoned,
        },
        "queued": stats.queued,
        "lost": finding.lost,
        "lostPercent": finding.lost_percent,
        "gaps": seen.gaps,
        "longestGap": seen.longest,
        "highWater": stats.high_water,
        "latencyUs": quantiles(&seen.latency),
        "handlerLateUs": quantiles(&seen.late),
        "firstLoss": first,
        "enough": {"queue": finding.queue(), "basis": finding.basis(), "seeds": finding.spread.map(seeds)},
    })
}

/// Returns the quantiles in microseconds, or null if nothing was recorded.
fn quantiles(histogram: &Histogram<u64>) -> Value {
    if histogram.is_empty() {
        return Value::Null;
    }
    let at = |quantile| micros(histogram.value_at_quantile(quantile));
    json!({"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p999": at(0.999), "max": at(1.0)})
}

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1000.0
}

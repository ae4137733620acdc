//! The help text that follows the options.

macro_rules! examples {
    () => {
        "\
Examples:
  eventcast size
  eventcast size --rate 20000 --watchers 3:queue=64,handler=exp:40us --for 5s
  eventcast size --rate 2000 --handler exp:400us --seeds 200
  eventcast size --sweep queue=10..10000 --output loss.svg
  eventcast size --rate 20000 --sweep handler=1us..100us --json"
    };
}

/// The text at the end of the short help.
pub(super) const EXAMPLES: &str = concat!(
    "\
A SPEC is a count and settings:
    3:queue=64,policy=drop_incoming,handler=exp:50us,name=slow
A POLICY is drop_incoming, drop_oldest, wait, or wait_for:DURATION.
A HANDLER is a DURATION, or uniform:10us..100us, exp:50us, pareto:50us.
A DURATION is one or more numbers with units: 500us, 2ms, 1m30s.

",
    examples!()
);

/// The text at the end of the long help.
pub(super) const LONG: &str = concat!(
    "\
A SPEC is a count, optionally followed by a colon and a list of settings:
    3:queue=64,policy=drop_incoming,handler=exp:50us,name=slow
A POLICY is drop_incoming, drop_oldest, wait, or wait_for:DURATION.
A HANDLER is the time per event, up to 60s. It is either constant (20us or
fixed:20us) or random for each event:
    uniform:10us..100us  uniformly distributed in this range
    exp:50us             exponentially distributed with this mean
    pareto:50us          mostly short, occasionally very long: a Pareto
                         distribution with this mean and a shape of 1.5, cut off
                         at 1000 times the mean
A DURATION is one or more numbers with units: 500us, 2ms, 5s, 1m30s.

In the tables, UTIL is the utilisation: the offered load divided by the
handler's capacity, or the time in seconds that the handler needs for the events
of one second. Above 1, the handler cannot keep up. LOST % is the percentage of
events lost to a full queue. RATE % is the percentage of the requested rate that
the publisher achieved.

Timing: The publisher follows the clock, regardless of what happens to the
events. If it is late, it still publishes the event, and the latency is measured
from the time when the event was due. A handler sleeps until its work would be
done. The system usually wakes it late (by about 0.06 ms). The handler makes up
for this with the queued events, so its average time is exact and no event is
finished too early. For times below 0.1 ms, handlers spin instead of sleeping,
but only as many at a time as leave one processor free. The others sleep. The
tables show how late the handlers were. The queue length that would have been
enough is computed from the publish times and the handler's times, including
those of lost events.

If a handler's time is random, the length depends on the seed. The command
therefore repeats the computation with --seeds seeds and reports the largest
length. With 99 seeds, one run in 100 with another seed needs a longer
queue.

If the bus's incoming queue is full, the bus refuses events before offering them
to any watcher. The answer then begins with --incoming.

Ctrl-C stops publishing and prints the report (for a sweep, of the runs that
have finished). A second Ctrl-C exits immediately.

Exit status: 0 on success, 1 if the counts do not add up or the output cannot be
written, 2 for bad usage.

",
    examples!()
);

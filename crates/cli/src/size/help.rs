//! The text after the options of the help.

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

/// The end of the short help.
pub(super) const EXAMPLES: &str = concat!(
    "\
A SPEC is a count and settings:
    3:queue=64,policy=drop_incoming,handler=exp:50us,name=slow
A POLICY is drop_incoming, drop_oldest, wait, or wait_for:DURATION.
A HANDLER is a DURATION, or uniform:10us..100us, exp:50us, pareto:50us.
A DURATION is 500us, 2ms, 1m30s.

",
    examples!()
);

/// The end of the long help.
pub(super) const LONG: &str = concat!(
    "\
A SPEC is a count and, after a colon, any of queue, policy, handler, name:
    3:queue=64,policy=drop_incoming,handler=exp:50us,name=slow
A POLICY is drop_incoming, drop_oldest, wait, or wait_for:DURATION.
A HANDLER is a DURATION up to 60s, always the same (20us or fixed:20us), or
drawn for each event:
    uniform:10us..100us  anything between
    exp:50us             exponential with that mean
    pareto:50us          mostly quick, now and then very long: Pareto's
                         distribution with that mean and a shape of 1.5, cut at
                         1000 means
A DURATION is numbers with units: 500us, 2ms, 5s, 1m30s.

In the tables UTIL is the utilisation: the offered load divided by the handler's
capacity, or the handler's time for the events of one second, in seconds. Above
1 the handler cannot keep up. LOST % is the share that was lost to a full queue.
RATE % is the share of the asked rate that the publisher reached.

How time is spent: the publisher goes by the clock, whatever becomes of the
events. It still publishes an event that is late, and latency counts from when
the event was due. A handler sleeps until it would be done. The system lets it
oversleep (some 0.06 ms). The handler takes less time for the queued events
until it has made up for that, so its average is exact, and no event is done too
early. Times below 0.1 ms are spun instead, by as many handlers at once as leave
one processor free. The others sleep. The tables show how late handlers were.
The length that would have been enough is computed from the time of each publish
and of its handler, also for the events that were lost.

If a handler's time is random, one seed gives one length. The arithmetic
therefore repeats the run for --seeds seeds, and the answer is the largest
length. With 99 seeds, one run in 100 with yet another seed needs more.

If the bus's own queue was full, the bus refused events before a watcher was
offered them. The answer then begins with --incoming.

Ctrl-C ends the publishing early and prints the report (of a sweep, the runs
before it). A second one ends the program.

Exit status: 0 when everything adds up, 1 when not or when the command cannot
write its output, 2 for bad usage.

",
    examples!()
);

-- A store of version 1: what its writer left, as SQL. It never changes.
PRAGMA application_id = 1702257505;
PRAGMA journal_mode = wal;
CREATE TABLE store (
    born INTEGER NOT NULL,
    resourceVersion INTEGER NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    expired INTEGER NOT NULL,
    evicted INTEGER NOT NULL
);
CREATE TABLE events (
    resourceVersion INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    lastSeen TEXT,
    type TEXT NOT NULL,
    reason TEXT NOT NULL,
    involvedObjectKind TEXT NOT NULL,
    involvedObjectNamespace TEXT NOT NULL,
    involvedObjectName TEXT NOT NULL,
    count INTEGER NOT NULL,
    message TEXT NOT NULL,
    firstTimestamp TEXT,
    lastTimestamp TEXT,
    eventTime TEXT,
    action TEXT NOT NULL,
    sourceComponent TEXT NOT NULL,
    sourceHost TEXT NOT NULL,
    reportingComponent TEXT NOT NULL,
    reportingInstance TEXT NOT NULL,
    involvedObjectUid TEXT NOT NULL,
    involvedObjectApiVersion TEXT NOT NULL,
    involvedObjectResourceVersion TEXT NOT NULL,
    involvedObjectFieldPath TEXT NOT NULL,
    uid TEXT NOT NULL,
    creationTimestamp TEXT,
    rest TEXT,
    expires TEXT NOT NULL
);
CREATE UNIQUE INDEX eventsByName ON events (namespace, name);
CREATE INDEX eventsByExpiry ON events (expires);
INSERT INTO store VALUES (1700000000000000000, 5, 3, 2, 0, 1);
INSERT INTO events (resourceVersion, expires, namespace, name, lastSeen, type, reason, involvedObjectKind,
    involvedObjectNamespace, involvedObjectName, count, message, firstTimestamp, lastTimestamp, eventTime, action,
    sourceComponent, sourceHost, reportingComponent, reportingInstance, involvedObjectUid, involvedObjectApiVersion,
    involvedObjectResourceVersion, involvedObjectFieldPath, uid, creationTimestamp, rest)
VALUES
    (3, '2023-11-14T23:13:20.000000Z', 'default', 'web-0.1', '2023-11-14T22:13:20.000000Z', 'Normal', 'Started', 'Pod',
    '', 'web-0', 2, 'it''s "started"', '2023-11-14T22:13:19Z', '2023-11-14T22:13:20Z', NULL, '', 'kubelet', 'node-1',
    'kubelet', 'node-1', '', '', '', '', '17979cfe-362a-4000-8000-000000000002', '2023-11-14T22:13:20Z', NULL),
    (5, '2023-11-14T23:13:20.000000Z', 'blue', 'web-1.1', NULL, 'Warning', 'BackOff', 'Pod', 'blue', 'web-1', 1,
    'restarting', NULL, NULL, NULL, '', '', '', '', '', '', 'v1', '', '', '17979cfe-362a-4000-8000-000000000003',
    '2023-11-14T22:13:20Z', '{"metadata":{"labels":{"team":"blue"}}}');
PRAGMA user_version = 1;

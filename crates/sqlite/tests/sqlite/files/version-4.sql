-- A store of version 4: what its writer left, as SQL. It never changes.
PRAGMA application_id = 1702257505;
PRAGMA journal_mode = wal;
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
INSERT INTO events VALUES
    (1,'shop','web-0.17979cfe362a0000',NULL,'Normal', 'Started','Pod','shop','web-0',1,'it''s "started" web-0.17979cfe362a0000',NULL,NULL,NULL,'','','','','','','','','','17979cfe-362a-4000-8000-000000000001','2023-11-14T22:13:20Z',NULL,'2023-11-14T23:13:20.000000Z');
INSERT INTO events VALUES
    (3,'blog','web-0.17979cfe362a0000',NULL,'Normal', 'Started','Pod','blog','web-0',1,'it''s "started" web-0.17979cfe362a0000',NULL,NULL,NULL,'','','','','','','','','','17979cfe-362a-4000-8000-000000000003','2023-11-14T22:13:20Z',NULL,'2023-11-14T23:13:20.000000Z');
INSERT INTO events VALUES
    (4,'shop','web-0.17979cfe362a0001',NULL,'Normal', 'Started','Pod','shop','web-0',1,'it''s "started" web-0.17979cfe362a0001',NULL,NULL,NULL,'','','','','','','','','','17979cfe-362a-4000-8000-000000000004','2023-11-14T22:13:20Z',NULL,'2023-11-14T23:13:20.000000Z');
INSERT INTO events VALUES
    (5,'shop','short',NULL,'Normal', 'Started','Pod','shop','web-0',1,'it''s "started" short',NULL,NULL,NULL,'','','','','','','','','','17979cfe-362a-4000-8000-000000000005','2023-11-14T22:13:20Z',NULL,'2023-11-14T23:13:20.000000Z');
INSERT INTO events VALUES
    (6,'shop','web-1.17979cfe362a0000',NULL,'Normal', 'Started','Pod','shop','web-1',7,'it''s "started" web-1.17979cfe362a0000',NULL,NULL,NULL,'','','','','','','','','','17979cfe-362a-4000-8000-000000000002','2023-11-14T22:13:20Z',NULL,'2023-11-14T23:13:20.000000Z');
CREATE TABLE store (
    born INTEGER NOT NULL,
    resourceVersion INTEGER NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    expired INTEGER NOT NULL,
    evicted INTEGER NOT NULL
    , maxEvents INTEGER NOT NULL DEFAULT 100000, written INTEGER NOT NULL DEFAULT 0);
INSERT INTO store VALUES(1700000000000000000,6,5,1,0,0,100000,1700000000000000);
CREATE UNIQUE INDEX eventsByName ON events (namespace, name);
CREATE INDEX eventsByExpiry ON events (expires);
CREATE INDEX eventsByObject ON events (involvedObjectName, involvedObjectKind COLLATE NOCASE);
CREATE INDEX eventsByType ON events (type);
CREATE INDEX eventsByReason ON events (reason);
CREATE INDEX eventsByLastSeen ON events (lastSeen);
CREATE INDEX eventsByNamespace ON events (namespace);
PRAGMA user_version = 4;

-- What operators did, and to which steps and workflows: the audit trail of single actions, and previews and executions of
-- bulk actions (see docs/operating.md).

CREATE TABLE steps_operations (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind       text NOT NULL, -- retry, cancel, …; of a whole workflow: retry_workflow, …
    state      text NOT NULL CHECK (state IN ('previewing', 'previewed', 'running', 'done')),
    filters    json NOT NULL DEFAULT '{}', -- of a bulk action
    parameters json NOT NULL DEFAULT '{}', -- the result to complete with
    actor      text,           -- NULL for a preview
    reason     text,
    undo_of    bigint,
    pace       double precision,           -- at most this many items per second
    next_at    timestamptz,           -- with a pace: not before
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    ended_at   timestamptz
);
CREATE INDEX steps_operations_undone ON steps_operations (undo_of, id) WHERE undo_of IS NOT NULL;
CREATE INDEX steps_operations_previews ON steps_operations (created_at) WHERE state IN ('previewing', 'previewed');

-- One row for each step or workflow that an operation is about ('target'), and for what changes with them ('also').
CREATE TABLE steps_operation_items (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    operation_id bigint NOT NULL,
    step_id      bigint,
    workflow_id  uuid,
    role         text NOT NULL CHECK (role IN ('target', 'also')),
    effect       text,   -- of 'also': revived, skipped, cancelled, failed
    because_of   bigint, -- the target that it goes with
    state        text,   -- before the action
    seen         bigint, -- its version when it was frozen: the id of its newest transition
    made         bigint, -- its version after the action
    expected     text CHECK (expected IN ('done', 'refused')),
    outcome      text CHECK (outcome IN ('done', 'refused', 'changed')),
    message      text,   -- why it is refused, or what has changed
    at           timestamptz
);
CREATE UNIQUE INDEX steps_operation_items_by_step ON steps_operation_items (operation_id, step_id) WHERE step_id IS NOT NULL;
CREATE UNIQUE INDEX steps_operation_items_by_workflow ON steps_operation_items (operation_id, workflow_id)
    WHERE workflow_id IS NOT NULL;
CREATE INDEX steps_operation_items_in_order ON steps_operation_items (operation_id, role, id);
CREATE INDEX steps_operation_items_open ON steps_operation_items (operation_id, id) WHERE role = 'target' AND outcome IS NULL;
CREATE INDEX steps_operation_items_of_step ON steps_operation_items (step_id, id) WHERE step_id IS NOT NULL;
CREATE INDEX steps_operation_items_of_workflow ON steps_operation_items (workflow_id, id) WHERE workflow_id IS NOT NULL;

-- Requests to the HTTP API with an `Idempotency-Key`: a second one with the same key gets the answer of the first.
CREATE TABLE steps_requests (
    visitor     text NOT NULL,
    key         text NOT NULL,
    fingerprint text NOT NULL, -- of method, path and body
    status      integer,       -- of the answer; NULL until there is one
    answer      text,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (visitor, key)
);
CREATE INDEX steps_requests_by_age ON steps_requests (created_at);

-- Retention: settled workflows leave `steps` after a period; with an archive, they stay readable here.

-- The rows of `steps`, column for column, of whole settled workflows. What belonged to a step is in its row: its history and
-- its log, what it depended on, the answer to a gate, what operators did to it. All rows of a workflow have the same `archived_at`.
-- The columns of `steps` come last: a migration that adds one there adds it here, too.
CREATE TABLE steps_archive (
    archived_at       timestamptz NOT NULL,
    history           json NOT NULL, -- an array of the rows of step_transitions; the next ones likewise
    logs              json,
    depends_on        json,
    answer            json,
    operations        json,
    id                bigint PRIMARY KEY,
    uuid              uuid,
    workflow_id       uuid,
    parent_step_id    bigint,
    block_uuid        uuid,
    child_block_uuid  uuid,
    "index"           integer,
    type              text,
    label             text,
    action            text,
    arguments         json,
    relatable_type    text,
    relatable_id      text,
    queue             text,
    "group"           text,
    priority          text,
    state             text,
    reason            text,
    actor             text,
    changed_from      text,
    trigger_rule      text,
    placed            boolean,
    dependencies      integer,
    has_dependents    boolean,
    has_children      boolean,
    attempts          integer,
    retries           integer,
    max_retries       integer,
    not_completed     integer,
    rescues           integer,
    begun             boolean,
    dispatch_after    timestamptz,
    is_throttled      boolean,
    was_throttled     boolean,
    timeout           double precision,
    cooldown          double precision,
    lease_worker      text,
    lease_token       bigint,
    claim_token       bigint,
    lease_deadline    timestamptz,
    compute_done_at   timestamptz,
    stage             text,
    double_checks     integer,
    checkpoint        json,
    progress_done     double precision,
    progress_total    double precision,
    own_code_done_at  timestamptz,
    hostname          text,
    tick_id           bigint,
    started_at        timestamptz,
    completed_at      timestamptz,
    duration          double precision,
    error_message     text,
    last_error        text,
    error_stack_trace text,
    response          json,
    idempotency_key   text,
    concurrency_key   text,
    concurrency_limit integer,
    belongs_to        text,
    kind              text,
    template          text,
    element           integer,
    plan              json,
    undecided         text,
    decision          json,
    created_at        timestamptz,
    updated_at        timestamptz,
    fingerprint       text
);
CREATE INDEX steps_archive_by_uuid ON steps_archive (uuid);
CREATE INDEX steps_archive_by_workflow ON steps_archive (workflow_id) WHERE workflow_id <> uuid;
CREATE INDEX steps_archive_by_age ON steps_archive (archived_at, id);

-- The rows of `steps_workflows` that belong to them.
CREATE TABLE steps_archived_workflows (
    archived_at    timestamptz NOT NULL,
    history        json NOT NULL,
    operations     json,
    id             uuid PRIMARY KEY,
    namespace      text,
    name           text,
    version        text,
    content_hash   text,
    state          text,
    reason         text,
    actor          text,
    context        json,
    initiator      text,
    source_system  text,
    request_reason text,
    tags           json,
    bypass_steps   json,
    identity       text,
    rerun_of       uuid,
    belongs_to     text,
    cancelled_at   timestamptz,
    settled_at     timestamptz,
    created_at     timestamptz,
    updated_at     timestamptz
);
CREATE INDEX steps_archived_workflows_by_age ON steps_archived_workflows (archived_at);

-- One row: what is kept, which pass is under way and what the last one did.
CREATE TABLE steps_retention (
    only_row       integer PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
    keep_days      double precision, -- as the process that runs retention was told; NULL: for ever
    archives       boolean, -- settled workflows are archived, not deleted
    archive_days   double precision,
    recorded_at    timestamptz, -- NULL: none has run
    holder         text, -- the process that makes the pass
    held_until     timestamptz,
    cutoff         timestamptz, -- of the pass under way: what ended before this goes
    position       bigint, -- of the pass under way: steps up to this id have been looked at
    started_at     timestamptz, -- of the one under way, or of the last pass
    ended_at       timestamptz, -- of the last pass
    workflow_count bigint NOT NULL DEFAULT 0, -- of that pass
    step_count     bigint NOT NULL DEFAULT 0,
    complete_until timestamptz, -- what ended before this is gone
    deleted_to     bigint NOT NULL DEFAULT 0 -- the highest id of a step that was deleted
);
INSERT INTO steps_retention (only_row) VALUES (1);

-- Without it, every deleted step would cost a search for its children: the foreign key looks for them.
CREATE INDEX steps_by_parent ON steps (parent_step_id) WHERE parent_step_id IS NOT NULL;

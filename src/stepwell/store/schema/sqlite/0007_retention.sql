-- Retention: settled workflows leave `steps` after a period; with an archive, they stay readable here.

-- The rows of `steps`, column for column, of whole settled workflows. What belonged to a step is in its row: its history and
-- its log, what it depended on, the answer to a gate, what operators did to it. All rows of a workflow have the same `archived_at`.
-- The columns of `steps` come last: a migration that adds one there adds it here, too.
CREATE TABLE steps_archive (
    archived_at       text NOT NULL,
    history           text NOT NULL, -- an array of the rows of step_transitions; the next ones likewise
    logs              text,
    depends_on        text,
    answer            text,
    operations        text,
    id                integer PRIMARY KEY,
    uuid              text,
    workflow_id       text,
    parent_step_id    integer,
    block_uuid        text,
    child_block_uuid  text,
    "index"           any,
    type              text,
    label             text,
    action            text,
    arguments         text,
    relatable_type    text,
    relatable_id      text,
    queue             text,
    "group"           text,
    priority          text,
    state             text,
    reason            text,
    actor             text,
    changed_from      text,
    batch             integer,
    trigger_rule      text,
    placed            integer,
    dependencies      integer,
    has_dependents    integer,
    has_children      integer,
    attempts          integer,
    retries           integer,
    max_retries       any,
    not_completed     integer,
    rescues           integer,
    begun             integer,
    dispatch_after    text,
    is_throttled      integer,
    was_throttled     integer,
    timeout           real,
    cooldown          real,
    lease_worker      text,
    lease_token       integer,
    claim_token       integer,
    lease_deadline    text,
    compute_done_at   text,
    stage             text,
    double_checks     integer,
    checkpoint        text,
    progress_done     real,
    progress_total    real,
    own_code_done_at  text,
    hostname          text,
    tick_id           integer,
    started_at        text,
    completed_at      text,
    duration          real,
    error_message     text,
    last_error        text,
    error_stack_trace text,
    response          text,
    idempotency_key   text,
    concurrency_key   text,
    concurrency_limit any,
    belongs_to        text,
    kind              text,
    template          text,
    element           integer,
    plan              text,
    undecided         text,
    decision          text,
    created_at        text,
    updated_at        text,
    fingerprint       text
) STRICT;
CREATE INDEX steps_archive_by_uuid ON steps_archive (uuid);
CREATE INDEX steps_archive_by_workflow ON steps_archive (workflow_id) WHERE workflow_id <> uuid;
CREATE INDEX steps_archive_by_age ON steps_archive (archived_at, id);

-- The rows of `steps_workflows` that belong to them.
CREATE TABLE steps_archived_workflows (
    archived_at    text NOT NULL,
    history        text NOT NULL,
    operations     text,
    id             text PRIMARY KEY,
    namespace      text,
    name           text,
    version        text,
    content_hash   text,
    state          text,
    reason         text,
    actor          text,
    context        text,
    initiator      text,
    source_system  text,
    request_reason text,
    tags           text,
    bypass_steps   text,
    identity       text,
    rerun_of       text,
    belongs_to     text,
    cancelled_at   text,
    settled_at     text,
    created_at     text,
    updated_at     text
) STRICT;
CREATE INDEX steps_archived_workflows_by_age ON steps_archived_workflows (archived_at);

-- One row: what is kept, which pass is under way and what the last one did.
CREATE TABLE steps_retention (
    only_row       integer PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
    keep_days      real, -- as the process that runs retention was told; NULL: for ever
    archives       integer, -- settled workflows are archived, not deleted
    archive_days   real,
    recorded_at    text, -- NULL: none has run
    holder         text, -- the process that makes the pass
    held_until     text,
    cutoff         text, -- of the pass under way: what ended before this goes
    position       integer, -- of the pass under way: steps up to this id have been looked at
    started_at     text, -- of the one under way, or of the last pass
    ended_at       text, -- of the last pass
    workflow_count integer NOT NULL DEFAULT 0, -- of that pass
    step_count     integer NOT NULL DEFAULT 0,
    complete_until text, -- what ended before this is gone
    deleted_to     integer NOT NULL DEFAULT 0 -- the highest id of a step that was deleted
) STRICT;
INSERT INTO steps_retention (only_row) VALUES (1);

-- Without it, every deleted step would cost a search for its children: the foreign key looks for them.
CREATE INDEX steps_by_parent ON steps (parent_step_id) WHERE parent_step_id IS NOT NULL;

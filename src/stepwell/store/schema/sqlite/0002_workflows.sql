-- The tables of declared workflows; their steps are in `steps`: see docs/decisions/0007-workflows-on-the-engine.md.

-- Declared workflows. Steps that were enqueued without a template have no row here.
CREATE TABLE steps_workflows (
    id            text PRIMARY KEY,
    namespace     text NOT NULL,
    name          text NOT NULL,
    version       text NOT NULL,
    content_hash  text NOT NULL,
    state         text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'in_progress', 'complete', 'error',
                      'cancelled', 'resolved_manually')),
    reason        text,
    actor         text,
    context       text,
    initiator     text,
    source_system text,
    request_reason text,
    tags          text NOT NULL DEFAULT '[]',
    bypass_steps  text NOT NULL DEFAULT '[]',
    identity      text, -- unique while not NULL: the caller's own key, or a hash of the request
    rerun_of      text,
    belongs_to    text CHECK (belongs_to = 'schedule'), -- the feature that follows its changes
    cancelled_at  text, -- it settles as cancelled, whatever had failed
    settled_at    text,
    created_at    text NOT NULL,
    updated_at    text NOT NULL
);
CREATE UNIQUE INDEX steps_workflows_by_identity ON steps_workflows (identity) WHERE identity IS NOT NULL;
CREATE INDEX steps_workflows_by_name ON steps_workflows (namespace, name, id);

CREATE TABLE steps_workflow_transitions (
    id          integer PRIMARY KEY AUTOINCREMENT,
    workflow_id text NOT NULL,
    from_state  text,
    to_state    text NOT NULL,
    reason      text,
    actor       text,
    at          text NOT NULL
);
CREATE INDEX steps_workflow_transitions_by_workflow ON steps_workflow_transitions (workflow_id, id);

-- The templates that were registered: a version never changes its content.
CREATE TABLE steps_templates (
    namespace     text NOT NULL,
    name          text NOT NULL,
    version       text NOT NULL,
    content_hash  text NOT NULL,
    definition    text NOT NULL,
    registered_at text NOT NULL,
    PRIMARY KEY (namespace, name, version)
);

-- Answers to open gates; also by plain SQL: a trigger refuses one for a gate that is not open.
CREATE TABLE step_answers (
    step_id     integer PRIMARY KEY REFERENCES steps (id),
    answer      text NOT NULL DEFAULT 'null' CHECK (json_valid(answer)),
    answered_by text NOT NULL CHECK (answered_by <> ''),
    reason      text,
    answered_at text NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f000', 'now'))
);

-- The tables of declared workflows; their steps are in `steps`: see docs/decisions/0007-workflows-on-the-engine.md.

-- Declared workflows. Steps that were enqueued without a template have no row here.
CREATE TABLE steps_workflows (
    id            uuid PRIMARY KEY,
    namespace     text NOT NULL,
    name          text NOT NULL,
    version       text NOT NULL,
    content_hash  text NOT NULL,
    state         text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'in_progress', 'complete', 'error',
                      'cancelled', 'resolved_manually')),
    reason        text,
    actor         text,
    context       json,
    initiator     text,
    source_system text,
    request_reason text,
    tags          json NOT NULL DEFAULT '[]',
    bypass_steps  json NOT NULL DEFAULT '[]',
    identity      text, -- unique while not NULL: the caller's own key, or a hash of the request
    rerun_of      uuid,
    belongs_to    text CHECK (belongs_to = 'schedule'), -- the feature that follows its changes
    cancelled_at  timestamptz, -- it settles as cancelled, whatever had failed
    settled_at    timestamptz,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL
);
CREATE UNIQUE INDEX steps_workflows_by_identity ON steps_workflows (identity) WHERE identity IS NOT NULL;
CREATE INDEX steps_workflows_by_name ON steps_workflows (namespace, name, id);

CREATE TABLE steps_workflow_transitions (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workflow_id uuid NOT NULL,
    from_state  text,
    to_state    text NOT NULL,
    reason      text,
    actor       text,
    at          timestamptz NOT NULL
);
CREATE INDEX steps_workflow_transitions_by_workflow ON steps_workflow_transitions (workflow_id, id);

-- The templates that were registered: a version never changes its content.
CREATE TABLE steps_templates (
    namespace     text NOT NULL,
    name          text NOT NULL,
    version       text NOT NULL,
    content_hash  text NOT NULL,
    definition    json NOT NULL,
    registered_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, name, version)
);

-- Answers to open gates; also by plain SQL: a trigger refuses one for a gate that is not open.
CREATE TABLE step_answers (
    step_id     bigint PRIMARY KEY REFERENCES steps (id),
    answer      json NOT NULL DEFAULT 'null',
    answered_by text NOT NULL CHECK (answered_by <> ''),
    reason      text,
    answered_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

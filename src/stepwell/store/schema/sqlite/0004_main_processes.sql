-- Main processes (docs/decisions/0010): which step is the live one of each task. The state of a task is computed from
-- that step (the view `steps_main_process_tasks`).

CREATE TABLE steps_tasks (
    id                integer PRIMARY KEY AUTOINCREMENT,
    task_class        text NOT NULL CHECK (task_class <> ''),
    entity            text NOT NULL DEFAULT '', -- a table and its column; empty: none. Not NULL: the key must hold without one, too
    part              text NOT NULL DEFAULT '1/1', -- of the entities: number/resources
    main_process      text NOT NULL,            -- the key of the one that queued it last
    step_id           integer,                  -- the live step
    priority          real,                     -- its share of the slots
    max_not_completed integer,                  -- runs in a row that may end without completing it; NULL: any number
    max_rescues       integer,                  -- deaths in a row that it may survive; NULL: any number
    queued_at         text NOT NULL,            -- when a queueing made it new
    UNIQUE (task_class, entity, part)
) STRICT;
CREATE UNIQUE INDEX steps_tasks_by_step ON steps_tasks (step_id) WHERE step_id IS NOT NULL;

-- dependOn: a full run of the task has to begin after all tasks of this class have completed.
CREATE TABLE steps_task_dependencies (
    task_id    integer NOT NULL,
    depends_on text NOT NULL, -- a class
    PRIMARY KEY (task_id, depends_on)
) STRICT;
CREATE INDEX steps_task_dependencies_by_class ON steps_task_dependencies (depends_on);

-- Queueings that failed and were rolled back.
CREATE TABLE steps_failed_queueings (
    id           integer PRIMARY KEY AUTOINCREMENT,
    main_process text NOT NULL,
    at           text NOT NULL,
    error        text NOT NULL, -- the class of the error
    message      text NOT NULL,
    task_class   text,          -- of a task-state error: the task, its state, and the step behind it
    task_state   text,
    step_id      integer,
    resolved_at  text           -- when the main process was queued again
) STRICT;
CREATE INDEX steps_failed_queueings_by_process ON steps_failed_queueings (main_process, id);
CREATE INDEX steps_failed_queueings_unresolved ON steps_failed_queueings (main_process) WHERE resolved_at IS NULL;

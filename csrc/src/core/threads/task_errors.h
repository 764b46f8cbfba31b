/* task_errors.h - one text of what the tasks of a parallel loop reported. */
#ifndef MB_TASK_ERRORS_H
#define MB_TASK_ERRORS_H

#define MB_TASK_ERRORS_SIZE (1 << 16) /* bytes that the texts of one loop share */

/* `errors`: a text on the heap per task, NULL where it went well. Records a line "Task <i>
 * error: <text>" for each that is there, cut where they are too long together, and frees them.
 * 0, or -1 if there is any. */
int mb_task_errors_report(char **errors, int tasks);

#endif

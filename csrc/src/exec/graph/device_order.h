/* device_order.h - the order of the steps of a graph over several devices. */
#ifndef MB_GRAPH_DEVICE_ORDER_H
#define MB_GRAPH_DEVICE_ORDER_H

#include "exec/graph/schedule.h"

/* An order in which devices and the host work at the same time, however the graph lists its nodes.
 * Each step comes behind all that it waits for, so results are those of the order of the graph.
 * `order` has room for all steps. A mblob_status. */
int mb_device_order(const struct mb_graph_executor *executor, const struct mb_schedule *schedule,
                    uint32_t *order);

#endif

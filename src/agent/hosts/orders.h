/* agent/hosts/orders.h: what the leader's agent tells the others, as bytes. */
#ifndef MU_AGENT_HOSTS_ORDERS_H
#define MU_AGENT_HOSTS_ORDERS_H

#include <muster/status.h>

#include "agent/hosts/hosts.h"
#include "base/pack.h"

void mu_agent_orders_pack(struct mu_pack *p, const struct mu_agent_orders *orders);
/* Everything is checked; mu_agent_orders_done() is due when it is MUSTER_OK. */
enum muster_status mu_agent_orders_unpack(const void *bytes, size_t len, struct mu_agent_orders *ret_orders);

#endif

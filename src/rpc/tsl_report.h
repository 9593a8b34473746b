/* rpc/tsl_report.h: ReportErrorToTask: what the service tells tasks that are servers themselves (private to the room).
 */
#ifndef MU_RPC_TSL_REPORT_H
#define MU_RPC_TSL_REPORT_H

#include "rpc/dialect.h"

/* options->workers; the service has its engine and its jobs. INVALID_ARGUMENT: they are none. */
enum muster_status mu_reports_begin(struct mu_service *service, const struct mu_service_options *options);
void mu_reports_end(struct mu_service *service);

#endif

/*
 * agent/process/signals.c: the signals that the launcher acts on: those that end the job, and those that its tasks are
 * to get.
 *
 * They are blocked and read from a descriptor in the loop. Those that our parent had ignored (nohup) stay ignored.
 */
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/private.h"

static const int forwarded[] = {SIGUSR1, SIGUSR2, SIGQUIT, SIGWINCH};
static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
static const int refusals[] = {SIGPIPE, SIGXFSZ}; /* of a write: its errno says it too */

/* Take over the signals that we act on. Those that our parent had ignored (nohup) stay ignored. */
void mu_agent_block_signals(struct mu_agent *agent)
{
    static const int others[] = {SIGCHLD, SIGTSTP, SIGTTOU};
    struct sigaction now, ignore = {.sa_handler = SIG_IGN}, by_default = {.sa_handler = SIG_DFL};

    sigemptyset(&agent->launching.handled);
    sigemptyset(&agent->launching.defaults);
    for (size_t i = 0; i < sizeof forwarded / sizeof forwarded[0]; i++)
        sigaddset(&agent->launching.handled, forwarded[i]);
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
        if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&agent->launching.handled, ending[i]);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        sigaddset(&agent->launching.handled, others[i]);
    sigaction(SIGCHLD, &by_default, NULL); /* an inherited SIG_IGN would lose the exit statuses */
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        if (sigaction(refusals[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) {
            sigaction(refusals[i], &ignore, NULL);
            sigaddset(&agent->launching.defaults, refusals[i]);
        }
    pthread_sigmask(SIG_BLOCK, &agent->launching.handled, &agent->launching.mask_before);
    sigdelset(&agent->launching.mask_before, SIGCHLD);
}

void mu_agent_signal_sized(struct mu_agent *agent, int number, struct mu_launch_size size)
{
    if (number == SIGWINCH && agent->options->pty && agent->launching.output)
        mu_launch_output_resize(agent->launching.output, size);
    mu_agent_signal_tasks(agent, number);
}

/* Where another launcher has started the agents, it gives its signals to each of them. */
static void signal_pass_on(struct mu_agent *agent, int number)
{
    struct mu_launch_size size = mu_launch_size_here();
    struct mu_pack what = {.bytes = NULL};

    mu_agent_signal_sized(agent, number, size);
    if (!mu_agent_leads(agent) || !agent->options->hosts->list)
        return;
    mu_pack_u32(&what, (uint32_t)number);
    mu_pack_u16(&what, size.rows);
    mu_pack_u16(&what, size.columns);
    mu_agent_tell(agent, UINT32_MAX, MU_TALK_SIGNAL, &what);
    mu_pack_done(&what);
}

static void take_signal(struct mu_agent *agent, int number)
{
    if (number == SIGCHLD) {
        mu_agent_check_stopped(agent);
        mu_agent_check_removed(agent);
        return; /* the loop reaps after every round */
    }
    if (number == SIGTSTP) {
        mu_agent_suspend(agent, 0);
        return;
    }
    for (size_t i = 0; i < sizeof forwarded / sizeof forwarded[0]; i++)
        if (number == forwarded[i])
            signal_pass_on(agent, number);
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
        if (number == ending[i])
            mu_agent_end_by_signal(agent, number);
}

void mu_agent_take_signals(struct mu_agent *agent)
{
    struct signalfd_siginfo info;

    while (read(agent->signal_fd, &info, sizeof info) == sizeof info)
        take_signal(agent, (int)info.ssi_signo);
}

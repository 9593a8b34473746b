/*
 * cli/run/foreign.c: options of other launchers, of mpirun's, mpiexec's, srun's and torchrun's, and what does that
 * here.
 */
#include "cli/cli.h"

#include <stdbool.h>
#include <string.h>

/* By name, without dashes before it; '_' stands for '-', too. */
static const struct {
    const char *theirs, *ours;
} options[] = {
    {"ntasks", "-n N"},
    {"nproc", "-n N"},
    {"nproc-per-node", "-n N, or -n gpu"},
    {"gpus", "-n gpu --bind-to gpu"},
    {"gpus-per-node", "-n gpu --bind-to gpu"},
    {"ppn", "--hosts a:N,b:N"},
    {"N", "--hosts a:N,b:N"},
    {"npernode", "--hosts a:N,b:N"},
    {"ntasks-per-node", "--hosts a:N,b:N"},
    {"nodes", "--hosts a:N,b:N"},
    {"nnodes", "--hosts a:N,b:N"},
    {"H", "--hosts a:N,b:N"},
    {"host", "--hosts a:N,b:N"},
    {"w", "--hosts a:N,b:N"},
    {"nodelist", "--hosts a:N,b:N"},
    {"f", "--hostfile FILE"},
    {"machinefile", "--hostfile FILE"},
    {"node-rank", "'muster agent --node-id I', or --hosts on one host alone"},
    {"rdzv-endpoint", "'muster agent --join LEADER', or --hosts on one host alone"},
    {"master-addr", "'muster agent --join LEADER', or --hosts on one host alone"},
    {"launcher-exec", "--rsh CMD"},
    {"tag-output", "--label"},
    {"label-io", "--label"},
    {"prepend-rank", "--label"},
    {"output-filename", "--output 'FILE.{rank}.{stream}'"},
    {"outfile-pattern", "--output 'FILE.{rank}.{stream}'"},
    {"log-dir", "--output 'DIR/{rank}.{stream}'"},
    {"o", "--output TEMPLATE"},
    {"kill-on-bad-exit", "the default, and --kill-on-fail=no is the other way"},
    {"disable-auto-cleanup", "--kill-on-fail=no"},
    {"no-kill", "--kill-on-fail=no"},
    {"max-restarts", "--restarts N"},
    {"t", "--timeout D"},
    {"x", "--env NAME=VALUE; the environment is inherited"},
    {"genv", "--env NAME=VALUE; the environment is inherited"},
    {"export", "--env NAME=VALUE; the environment is inherited"},
    {"wdir", "--chdir DIR"},
    {"wd", "--chdir DIR"},
    {"D", "--chdir DIR"},
    {"oversubscribe", "always allowed; 'core:overload' for --bind-to binds all the same"},
    {"overcommit", "always allowed; 'core:overload' for --bind-to binds all the same"},
    {"cpu-bind", "--bind-to core, l3, numa or package"},
    {"gpu-bind", "--bind-to gpu"},
    {"c", "--map-by slot:pe=N"},
    {"cpus-per-task", "--map-by slot:pe=N"},
    {"cpus-per-proc", "--map-by slot:pe=N"},
    {"cpus-per-rank", "--map-by slot:pe=N"},
    {"distribution", "--map-by WHAT"},
    {"display-map", "--report-bindings, or --dry-run"},
    {"allow-run-as-root", "always allowed"},
    {"multi-prog", "a lone ':' between the commands"},
};

static bool is_same(const char *word, size_t len, const char *name)
{
    for (size_t i = 0; i < len; i++)
        if ((word[i] == '_' ? '-' : word[i]) != name[i])
            return 0;
    return name[len] == 0;
}

const char *mu_cli_foreign_option(const char *word)
{
    size_t len;

    word += strspn(word, "-");
    len = strcspn(word, "=");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (is_same(word, len, options[i].theirs))
            return options[i].ours;
    return NULL;
}

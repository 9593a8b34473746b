/*
 * bench/peers/pslite.cc: what bench/ps.c measures, by ps-lite over ZeroMQ on loopback: a scheduler, a server, N workers.
 * The server adds what is pushed to a vector a key, as the rows of muster's table are.
 *
 * Usage: pslite PUSHERS SECONDS      (the first starts the others, with ps-lite's DMLC_* in the environment)
 */
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>
#include <vector>

#include "ps/ps.h"

using namespace ps;

static std::unordered_map<Key, std::vector<float>> store;

static void serve(const KVMeta &meta, const KVPairs<float> &data, KVServer<float> *server)
{
    KVPairs<float> answer;

    if (meta.push) {
        size_t at = 0;

        for (size_t i = 0; i < data.keys.size(); i++) {
            size_t n = data.lens.size() ? (size_t)data.lens[i] : data.vals.size() / data.keys.size();
            std::vector<float> &row = store[data.keys[i]];

            row.resize(n);
            for (size_t k = 0; k < n; k++)
                row[k] += data.vals[at + k];
            at += n;
        }
    } else {
        size_t all = 0, at = 0;

        answer.keys = data.keys;
        answer.lens.resize(data.keys.size());
        for (size_t i = 0; i < data.keys.size(); i++)
            all += store[data.keys[i]].size();
        answer.vals.resize(all);
        for (size_t i = 0; i < data.keys.size(); i++) {
            const std::vector<float> &row = store[data.keys[i]];

            answer.lens[i] = (int)row.size();
            std::copy(row.begin(), row.end(), answer.vals.begin() + at);
            at += row.size();
        }
    }
    server->Response(meta, answer);
}

static double now_ns()
{
    return (double)std::chrono::steady_clock::now().time_since_epoch().count();
}

static void emit(const char *metric, std::vector<double> samples)
{
    double sum = 0;

    std::sort(samples.begin(), samples.end());
    for (double s : samples)
        sum += s;
    printf("{\"metric\": \"%s\", \"who\": \"ps-lite\", \"batch\": 1, \"n\": %zu, \"mean\": %.3f, \"min\": %.3f, "
           "\"max\": %.3f, \"hist\": [",
           metric, samples.size(), sum / samples.size(), samples.front(), samples.back());
    for (size_t i = 0; i < samples.size(); i++)
        printf("%s[%.3f, 1]", i ? ", " : "", samples[i]);
    puts("]}");
    fflush(stdout);
}

static void row(KVWorker<float> &kv, const char *metric, size_t keys, size_t numbers, size_t first, double seconds)
{
    SArray<Key> k(keys);
    SArray<int> lens(keys);
    SArray<float> out(keys * numbers), in(keys * numbers);
    std::vector<double> samples;

    for (size_t i = 0; i < keys; i++) {
        k[i] = first + i;
        lens[i] = (int)numbers;
    }
    kv.Wait(kv.ZPush(k, out, lens));
    kv.Wait(kv.ZPull(k, &in, &lens));
    Postoffice::Get()->Barrier(0, kWorkerGroup);
    for (double end = now_ns() + seconds * 1e9; samples.empty() || now_ns() < end;) {
        double start = now_ns();

        kv.Wait(kv.ZPush(k, out, lens));
        kv.Wait(kv.ZPull(k, &in, &lens));
        samples.push_back(now_ns() - start);
    }
    if (!MyRank())
        emit(metric, samples);
    Postoffice::Get()->Barrier(0, kWorkerGroup);
}

static int work(int pushers, double seconds)
{
    static const size_t sizes[] = {4, 4096, 65536, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
    KVServer<float> *server = nullptr;
    char metric[64];
    size_t first = 0;

    Start(0);
    if (IsServer()) {
        server = new KVServer<float>(0);
        server->set_request_handle(serve);
        RegisterExitCallback([server]() { delete server; });
    }
    if (IsWorker()) {
        KVWorker<float> kv(0, 0);

        sleep(1); /* a server that gets a request before it has its handler ends itself */

        for (size_t bytes : sizes) {
            snprintf(metric, sizeof metric, "ps.dense.%zu.n%d", bytes, pushers);
            row(kv, metric, 1, bytes / 4, first++, seconds);
        }
        snprintf(metric, sizeof metric, "ps.sparse.n%d", pushers);
        row(kv, metric, 4096, 64, first, seconds);
    }
    Finalize(0, true);
    return 0;
}

int main(int argc, char **argv)
{
    int pushers = argc == 3 ? atoi(argv[1]) : 0, failed = 0;
    char number[16];

    if (pushers < 1)
        return 2;
    if (getenv("DMLC_ROLE"))
        return work(pushers, atof(argv[2]));
    snprintf(number, sizeof number, "%d", pushers);
    setenv("DMLC_NUM_WORKER", number, 1);
    setenv("DMLC_NUM_SERVER", "1", 1);
    setenv("DMLC_PS_ROOT_URI", "127.0.0.1", 1);
    snprintf(number, sizeof number, "%d", 20000 + getpid() % 10000);
    setenv("DMLC_PS_ROOT_PORT", number, 1);
    setenv("DMLC_NODE_HOST", "127.0.0.1", 1);
    std::vector<pid_t> pids(pushers + 2);
    for (int i = 0; i < pushers + 2; i++)
        if (!(pids[i] = fork())) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            setenv("DMLC_ROLE", i == 0 ? "scheduler" : i == 1 ? "server" : "worker", 1);
            execv("/proc/self/exe", argv);
            _exit(127);
        }
    for (int status; wait(&status) > 0;) {
        failed |= status;
        for (pid_t pid : pids)
            if (status) /* the others would wait for ever */
                kill(pid, SIGKILL);
    }
    return failed != 0;
}

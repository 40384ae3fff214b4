"""All checks of the chart, the recipe of the image and the compose file. Called by tests/charts."""

import json
import sys
import tempfile
import traceback

import files
import live
import rules
import schemas
import values
from helm import EXAMPLES, Helm, pipeline_of, pod_specs, renderings
from programs import STAGES, Programs, commands_exist, configurations_load, refuses
from report import Report, must


def in_words(rule):
    return rule.__name__.replace("_", " ")


def check_values(report, helm):
    for check in (values.described, values.shipped_is_accepted, values.defaults_are_all):
        with report.check(f"values: {in_words(check)}"):
            check()
    with report.check(f"values: {len(values.REFUSED)} that are out of range, unknown or contradictory are refused by name"):
        values.refused(helm)
    with report.check(f"values: {len(values.ACCEPTED)} at the ends of their ranges are accepted"):
        values.accepted(helm)
    for check in (values.checksums, values.numbers, values.large_numbers_stay_whole, values.notes):
        with report.check(f"values: {in_words(check)}"):
            check(helm)


def check_renderings(report, helm, tools):
    """Returns the renderings by name."""
    rendered = {}
    must(len(EXAMPLES) == 4, "there are four examples")
    for name, arguments in renderings(helm).items():
        with report.check(f"{name}: helm lint"):
            helm.lint(*arguments)
        with report.check(f"{name}: helm template"):
            rendered[name] = helm.template(*arguments)
    every = [document for documents in rendered.values() for document in documents]
    # Most objects are the same in several renderings.
    different = list({json.dumps(document, sort_keys=True): document for document in every}.values())
    for version in schemas.versions():
        with report.check(f"Kubernetes {version[0]}.{version[1]}: all {len(different)} objects fit its strict schemas"):
            schemas.kubernetes(different, version)
    with report.check("KEDA and the Prometheus operator: their objects fit"):
        must(schemas.custom(every, tools) >= 5, "there are too few of them")
    with report.check("KEDA: the metadata of every scaler"):
        must(schemas.scalers(every) >= 4, "there are too few of them")
    for rule in rules.RULES:
        with report.check(f"every rendering: {in_words(rule)}"):
            for name, documents in rendered.items():
                try:
                    rule(documents)
                except Exception as error:
                    raise type(error)(f"{name}: {error}") from error
    return rendered


def check_programs(report, rendered, programs):
    with report.check("every rendering: programs and flags exist"):
        for documents in rendered.values():
            commands_exist(documents, programs)
    contact = {"RHUMB__NETWORK__USER_AGENT": "test/1.0 (+https://example.org/bot)"}
    configurations = {}
    with tempfile.NamedTemporaryFile("w", suffix=".crt") as ca:
        ca.write(files.certificate())
        ca.flush()
        for name, documents in rendered.items():
            text, stages = pipeline_of(documents), STAGES if name == "the defaults" else ["parser"]
            # The file comes from a Secret.
            configurations[name] = (text.replace("/etc/rhumb-ca/ca.crt", ca.name), contact, stages)
        with report.check(f"every rendering: programs take the configuration ({len(configurations)} of them)"):
            configurations_load(configurations, programs)
    with report.check("without a contact a stage ends with 2 and says so in the last line"):
        refuses(pipeline_of(rendered["the defaults"]), programs, "network.user_agent")


def check_files(report, rendered, programs, tools):
    every = [document for documents in rendered.values() for document in documents]
    run = {spec["containers"][0]["command"][0] for _, _, spec in pod_specs(every) if "command" in spec["containers"][0]}
    with report.check("Dockerfile: hadolint"):
        files.hadolint(tools)
    with report.check("Dockerfile: all programs, locked, no shell, not root"):
        files.image_has_all_programs(run)
    for check in (files.versions_agree, files.context_is_small, files.readme_has_every_value, files.pages_are_linked):
        with report.check(in_words(check)):
            check()
    with report.check("compose: asks for a contact"):
        files.compose_asks_for_a_contact()
    tree = {}
    with report.check("compose: fits the specification"):
        tree.update(files.compose())
    with report.check("compose: runs everything, waits for init, scales"):
        files.compose_runs_everything(tree, programs)
    with report.check("compose: mounts what there is"):
        files.compose_mounts_what_there_is(tree)
    with report.check("compose: programs take the environment"):
        environments = files.compose_environments(tree)
        configurations_load({f"compose {stage}": ("{}", more, [stage]) for stage, more in environments.items()}, programs)


def check_live(report, name, crawl, steps):
    for step in steps:
        failed = report.failed
        with report.check(f"{name}: {in_words(step)}"):
            step(crawl)
        if report.failed > failed:
            # What follows builds upon it.
            return


def check_lives(report, helm, programs, tools):
    example = [file for file in EXAMPLES if file.stem == "test-cluster"]
    crawl, sets = live.Crawl, ["archiver.replicas=1"]
    scaled = helm.template(*helm.arguments(example, [*sets, "autoscaling.fetcher.kind=keda", "autoscaling.parser.kind=keda"]))
    guarded = helm.template(*helm.arguments(example, [*sets, "broker.credentials.existingSecret=users"]))
    small = helm.template(*helm.arguments(example, ["nats.storage.size=2Gi"]))
    with crawl(small, programs, tools) as running:
        check_live(report, "a claim of 2Gi", running, [crawl.begin_nats, crawl.init_says_that_the_claim_is_too_small])
    runs = [crawl.begin_all, crawl.becomes_ready, crawl.helm_test_passes, crawl.commands_work_from_anywhere]
    with crawl(scaled, programs, tools) as running:
        begins = [crawl.begin_nats, crawl.stages_wait, crawl.init, crawl.another_owner_is_refused]
        ends = [crawl.scale_is_served, crawl.lag_is_measured, crawl.drains]
        check_live(report, "on loopback", running, [*begins, *runs, *ends])
    with crawl(guarded, programs, tools) as running:
        begins = [crawl.make_users, crawl.begin_nats, crawl.who_has_no_key_is_refused, crawl.init]
        check_live(report, "on loopback with users", running, [*begins, *runs, crawl.drains])


def main():
    tools, programs = sys.argv[1], Programs(sys.argv[2])
    report, helm = Report(), Helm(tools)
    rendered = {}
    try:
        check_values(report, helm)
        rendered = check_renderings(report, helm, tools)
        check_programs(report, rendered, programs)
        check_files(report, rendered, programs, tools)
        check_lives(report, helm, programs, tools)
    except Exception:  # what is no single check's fault ends all of them
        report.failed += 1
        traceback.print_exc()
    sys.exit(0 if report.end() else 1)


main()

"""A server of trained runs: many clients, many runs, one thread for the model of each run.

    HTTP request -> middleware (limits, headers, log) -> routes of an API -> Service -> Worker of a run -> Model

`service.py` knows no HTTP. Each API is a module with `routes(service, settings)`. FastAPI is imported by the modules
that build the application, so everything else works without it.
"""

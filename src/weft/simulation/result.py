from dataclasses import dataclass
@dataclass
class Simulation:
    schedule: object; network: object; nbytes: float; seconds: float; started: object; ended: object; limiter: object; channel: str

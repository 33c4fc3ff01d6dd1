from weft.simulation.simulate import simulate
